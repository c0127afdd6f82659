"""What the plugin uses of slime, looked for in slime's source text: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

USED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "slime/utils/types.py": {
        "Sample": (
            *("group_index", "index", "rollout_id", "prompt", "tokens", "response", "label"),
            *("response_length", "reward", "loss_mask", "weight_versions", "rollout_log_probs"),
            *("rollout_top_p_token_ids", "rollout_top_p_token_offsets", "rollout_routed_experts"),
            *("remove_sample", "teacher_log_probs", "status", "metadata", "session_id"),
            *("non_generation_time", "spec_info", "prefix_cache_info"),
            *("Status", "append_response_tokens"),
        ),
    },
    "slime/rollout/base_types.py": {
        "RolloutFnTrainOutput": ("samples", "metrics"),
        "RolloutFnEvalOutput": ("data", "metrics"),
    },
    "slime/rollout/filter_hub/base_types.py": {"DynamicFilterOutput": ("keep", "reason")},
    "slime/utils/http_utils.py": {"post": ("url", "payload", "headers")},
    "slime/utils/async_utils.py": {"get_async_loop": ()},
}
"""File to class or function, to the members or parameters that are used."""


def missing_names(root: Path) -> list[str]:
    """What a slime lacks of what the plugin uses, such as "slime/utils/types.py: Sample.tokens".

    Args:
        root: The folder that holds the package `slime`.
    """
    return [
        f"{file}: {name}"
        for file, wanted in USED.items()
        for name in _missing(_defined(root / file), wanted)
    ]


def _missing(
    defined: Mapping[str, frozenset[str]], wanted: Mapping[str, tuple[str, ...]]
) -> list[str]:
    gone = [name for name in wanted if name not in defined]
    return gone + [
        f"{name}.{member}"
        for name, members in wanted.items()
        if name in defined
        for member in members
        if member not in defined[name]
    ]


def _defined(file: Path) -> dict[str, frozenset[str]]:
    """The classes and functions of a file, with their members or parameters."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return {}
    return {
        node.name: _members(node)
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _members(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    if not isinstance(node, ast.ClassDef):
        return frozenset(a.arg for a in (*node.args.args, *node.args.kwonlyargs))
    named = {part.name for part in node.body if isinstance(part, ast.ClassDef | ast.FunctionDef)}
    fields = {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return frozenset(named | fields)

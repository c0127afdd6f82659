"""slime's own contract tests, run on the functions of the plugin."""

from __future__ import annotations

import pytest
from slime_checkout import run, slime_root

PLUGIN = "backends.slime.plugin"
SUITES = {
    "generate": {"custom-generate-function-path": "generate"},
    "rollout": {"rollout-function-path": "generate_rollout"},
    "path_loading": {
        "eval-function-path": "eval_rollout",
        "custom-rm-path": "reward",
        "dynamic-sampling-filter-path": "dynamic_filter",
        "buffer-filter-path": "buffer_filter",
        "data-source-path": "DataSource",
    },
    "runtime_hook": {"custom-reward-post-process-path": "reward_post_process"},
}
"""What each file of slime's takes. The hooks for logs and for converted data are left out: the
tests assert side effects of the file's own reference functions."""

pytestmark = pytest.mark.slime


def suite(name: str, paths: dict[str, str], *flags: str) -> None:
    root = slime_root()
    options = [text for key, value in paths.items() for text in (f"--{key}", f"{PLUGIN}.{value}")]
    file = f"tests/plugin_contracts/test_plugin_{name}_contracts.py"
    done = run([file, *options, *flags, "-q", "-p", "no:cacheprovider"], root)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert " passed" in last and "skipped" not in last


@pytest.mark.parametrize("name", SUITES)
def test_functions_fulfil_slimes_contract(name: str) -> None:
    suite(name, SUITES[name])


def test_group_reward_fulfils_slimes_contract() -> None:
    suite("path_loading", {"custom-rm-path": "group_reward"}, "--group-rm")

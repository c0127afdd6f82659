"""`RunConfig` to YAML that loads again as the same configuration."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from retrain.config.redact import redact
from retrain.config.run import RunConfig

_UNSAFE_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Representer(SafeRepresenter):
    """Block style in the models' order; exotic line breaks escaped, for they do not read back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sort_base_mapping_type_on_output = False

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> ScalarNode:
        style = '"' if _UNSAFE_PLAIN.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)


def dump_config(config: RunConfig) -> str:
    """Write a resolved configuration: every default in full, paths absolute, no credential.

    Where there are stages, the file's own hyperparameters are written as they were given, since
    stages inherit what was given; each stage's resolved configuration belongs in its own folder.
    """
    content: dict[str, Any] = config.model_dump(mode="json")
    if config.stages:
        content["algorithm"]["hyperparameters"] = config.algorithm.hyperparameters.given()
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.width = 1_000_000
    text = StringIO()
    yaml.dump(redact(content), text)
    return text.getvalue()

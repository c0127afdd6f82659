"""The process that plays a tape through slime's own code, since importing slime changes much.

python -m backends.slime.parity_process FOLDER reads FOLDER/request.json and writes
FOLDER/rows.json; exit code 3 says that slime cannot be imported, and standard error why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from backends.slime.parity_rows import read_rows
from retrain.config import RunConfig
from retrain.parity import LossRow, Recorded
from retrain.types import Group

NOT_IMPORTABLE = 3
_REQUEST, _ROWS = "request.json", "rows.json"
_GROUPS = TypeAdapter(tuple[Group, ...])
_ANSWER = TypeAdapter(list[LossRow])


def write_request(
    folder: Path, recorded: Recorded, arguments: Mapping[str, Any], copies: int
) -> None:
    """Write what the process is to do.

    Args:
        folder: Where; nobody else reads it.
        recorded: The tape's groups, and the configuration that plays them.
        arguments: The planned arguments.
        copies: Copies of the model.
    """
    content = {
        "config": recorded.config.model_dump(mode="json"),
        "base_dir": str(recorded.config.base_dir.absolute()),
        "groups": _GROUPS.dump_python(recorded.groups, mode="json"),
        "arguments": dict(arguments),
        "copies": copies,
    }
    (folder / _REQUEST).write_text(json.dumps(content, default=str), encoding="utf-8")


def read_answer(folder: Path) -> list[LossRow]:
    """Read what the process has written."""
    return _ANSWER.validate_json((folder / _ROWS).read_bytes())


def main() -> None:
    """Play the tape of a request."""
    folder = Path(sys.argv[1])
    try:
        import_module("slime.ray.rollout")
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(NOT_IMPORTABLE) from None
    content = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
    config = RunConfig.model_validate(content["config"]).located(Path(content["base_dir"]))
    recorded = Recorded(config, _GROUPS.validate_python(content["groups"]), ())
    rows = read_rows(recorded, content["arguments"], content["copies"], real=True)
    (folder / _ROWS).write_bytes(_ANSWER.dump_json(rows))


if __name__ == "__main__":
    main()

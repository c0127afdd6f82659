"""Plants each fault in a copy of the repository, runs its tests there, and writes the table.

    python tests/mutation/check_planted_faults.py [--only WORDS] [--write]

`--write` puts the table into docs/planted_faults.md. Exits 1 where a fault is not caught. The tests
run in this interpreter's environment, one fault after the other.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults_in_backends import BACKENDS
from faults_in_bridges import BRIDGES
from faults_in_engines import ENGINES
from faults_in_native_loop import NATIVE_LOOP
from faults_in_rendering import RENDERING
from planted_fault import ROOT, PlantedFault

PAGE = ROOT / "docs" / "planted_faults.md"
FAULTS = (*RENDERING, *BRIDGES, *BACKENDS, *NATIVE_LOOP, *ENGINES)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""Without bytecode: a fault of the same length within the same second would not be read."""

_INTRODUCTION = """\
# Planted faults

Each row is an edit that changes what is trained on, planted in a copy of the repository, and the
first test that fails because of it. `python tests/mutation/check_planted_faults.py --write` makes
this page; it first sees that the same tests pass without the faults. CI sees that every fault can
still be planted.

| The faulty code | Where | Caught by |
| --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a fault; `caught_by` is None where no test failed."""

    fault: PlantedFault
    caught_by: str | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the faults that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="words of the faults to plant")
    parser.add_argument("--write", action="store_true", help="write the table")
    given = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if given.only in f"{f.does} {f.file}"]
    with _copy() as tree:
        healthy = _first_failure(tree, tuple(dict.fromkeys(t for f in chosen for t in f.tests)))
        if healthy is not None:
            print(f"without any fault, {healthy} fails; mend it first")
            return 1
        verdicts = [_check(tree, fault) for fault in chosen]
    missed = [verdict for verdict in verdicts if verdict.caught_by is None]
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} planted faults were caught")
    if given.write and not given.only:
        PAGE.write_text(_page(verdicts))
    return 1 if missed else 0


def _check(tree: Path, fault: PlantedFault) -> Verdict:
    before = (tree / fault.file).read_text()
    fault.plant(tree)
    try:
        verdict = Verdict(fault, _first_failure(tree, fault.tests))
    finally:
        (tree / fault.file).write_text(before)
    print(f"{verdict.caught_by or 'NOT CAUGHT'}: {fault.does}", flush=True)
    return verdict


@contextmanager
def _copy() -> Iterator[Path]:
    """A copy of what git knows of, or would; the caller's environment serves it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "repository"
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        shared = ROOT.parent / "shared"
        if shared.is_dir():
            (Path(folder) / "shared").symlink_to(shared)
        yield tree


def _first_failure(tree: Path, tests: Sequence[str]) -> str | None:
    """The first test that fails in `tree`, or None where all pass."""
    command = ["-m", "pytest", "-x", "-q", "-p", "no:xdist", *tests]
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if ended.returncode == 0:
        return None
    failed = _FAILED.search(ended.stdout)
    if failed is None:
        raise RuntimeError(f"pytest ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return failed.group(1)


def _page(verdicts: Sequence[Verdict]) -> str:
    rows = [
        f"| {verdict.fault.does} | `{verdict.fault.file}` | `{verdict.caught_by or 'no test'}` |"
        for verdict in verdicts
    ]
    caught = sum(v.caught_by is not None for v in verdicts)
    return f"{_INTRODUCTION}{chr(10).join(rows)}\n\n{caught} of {len(verdicts)} are caught.\n"


if __name__ == "__main__":
    sys.exit(main())

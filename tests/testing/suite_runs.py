"""Runs pytest over a file of its own and tells how each test ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass
class ClassRun:
    """How the tests of one class ended; parameters are left out of their names."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


@cache
def run_file(path: Path) -> Mapping[str, ClassRun]:
    """Run a file of tests in a process of its own; the classes by name."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(path), "-q", "--tb=short"]
        command += ["-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}"]
        places = [str(ROOT), str(HERE), *sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        environment.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert report.is_file(), done.stdout + done.stderr
        return _read(report)


def _read(report: Path) -> Mapping[str, ClassRun]:
    runs: defaultdict[str, ClassRun] = defaultdict(ClassRun)
    for case in ElementTree.parse(report).iter("testcase"):
        run = runs[case.attrib["classname"].rpartition(".")[2]]
        name = re.sub(r"\[.*", "", case.attrib["name"], flags=re.DOTALL)
        problem = next((part for part in case if part.tag in ("failure", "error")), None)
        if problem is not None:
            run.failed.setdefault(name, f"{problem.attrib.get('message', '')}\n{problem.text}")
        elif case.find("skipped") is not None:
            run.skipped.add(name)
        else:
            run.passed.add(name)
    return runs

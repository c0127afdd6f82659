"""Does the model learn to ask? Pictures and a page about one run, or several side by side.

python -m examples.matching.analyze runs/matching runs/matching-slime --output pages
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from retrain.errors import MissingDependency, RetrainError

from .dialogues import Run, read_run
from .findings import findings_of
from .page import page, verdict


def write_analysis(runs: Sequence[Run], output: Path) -> list[str]:
    """Write `curves.png`, `scatter.png` and `index.html`.

    Args:
        runs: The runs, at least one.
        output: The folder.

    Returns:
        A sentence about each run.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    try:
        from .plots import draw_curves, draw_scatter
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "the plots need matplotlib; install it with: pip install 'retrain[matching]'"
        ) from error
    findings = [findings_of(run) for run in runs]
    output.mkdir(parents=True, exist_ok=True)
    draw_curves(output / "curves.png", runs)
    draw_scatter(output / "scatter.png", runs, findings)
    (output / "index.html").write_text(page(runs, findings), encoding="utf-8")
    return [verdict(run, found) for run, found in zip(runs, findings, strict=True)]


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read runs, and give those of one backend labels that tell them apart.

    Raises:
        DataError: A folder is no run, or holds no dialogues.
    """
    runs = [read_run(folder) for folder in folders]
    labels = [run.label for run in runs]
    return [
        replace(run, label=f"{run.label} {folder.name}") if labels.count(run.label) > 1 else run
        for run, folder in zip(runs, folders, strict=True)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and write the pictures and the page."""
    parser = argparse.ArgumentParser(description="Does the model learn to ask?")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--output", type=Path, help="default: analysis/ in the first run folder")
    given = parser.parse_args(arguments)
    output = given.output or given.runs[0] / "analysis"
    try:
        verdicts = write_analysis(read_runs(given.runs), output)
    except RetrainError as error:
        parser.exit(2, f"{error}\n")
    print(*verdicts, output / "index.html", sep="\n")


if __name__ == "__main__":
    main()

"""Writing the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from retrain.errors import DataError, RunFolderError
from retrain.report.atomic import replace_bytes
from retrain.report.page.page import report_page
from retrain.report.record import RunRecord, read_record
from retrain.report.run_folder import REPORT


def write_report(run_dir: Path) -> Path:
    """Write the page of a run into its folder.

    Args:
        run_dir: The run folder, or a stage's.

    Returns:
        The page, `run_dir`/report.html.

    Raises:
        DataError: The run has neither metrics nor samples yet.
        RunFolderError: The page cannot be written.
    """
    return write_page([read_record(run_dir)], run_dir / REPORT)


def write_page(records: Sequence[RunRecord], path: Path) -> Path:
    """Write a page about one run or several.

    Raises:
        DataError: None of them has metrics or samples yet.
        RunFolderError: The page cannot be written.
    """
    if not any(record.rows or any(record.folder.glob("samples/*.jsonl")) for record in records):
        named = ", ".join(str(record.folder) for record in records)
        raise DataError(f"{named}: neither metrics nor samples are recorded yet")
    page = report_page(records).encode()
    try:
        replace_bytes(path, page)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path

"""`retrain view`: look at a run in the browser, or put it into one file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.cli.options import AsJson
from retrain.errors import MissingDependency

if TYPE_CHECKING:
    from retrain.view.runs import RunPlace

EXAMPLE = """\b
Examples:
  retrain view runs/calculator
  retrain view runs/calculator/stages/grpo --port 8800 --no-browser
  retrain view runs/calculator --html run.html --most 200"""


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write one file that opens without a server instead."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="With --html: most episodes in the file.")
    ] = 256,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            "--images",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Show pictures of this folder too; may be given several times.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a run in the browser, token by token, live.

    The page is served to this machine only. Stops on Ctrl-C.
    """
    from retrain.view.runs import find_runs

    places = find_runs(run)
    title = run.expanduser().absolute().name
    if html is not None:
        _write(html, places, title, most, as_json, images=images or ())
        return
    find = partial(find_runs, run)
    _serve(places, title, port, browser, as_json, find=find, images=images or ())


def _write(
    path: Path,
    places: Sequence[RunPlace],
    title: str,
    most: int,
    as_json: bool,
    *,
    images: Sequence[Path],
) -> None:
    from retrain.view.single_file import write_single_file

    written = write_single_file(path, places, title=title, most=most, images=images)
    if as_json:
        facts = {"file": str(path), "episodes": written.episodes, "of": written.of}
        typer.echo(json.dumps(facts))
        return
    left = "" if written.episodes == written.of else f" of {written.of} (--most {most})"
    typer.echo(f"{path} holds {written.episodes} episodes{left}")


def _serve(
    places: Sequence[RunPlace],
    title: str,
    port: int,
    browser: bool,
    as_json: bool,
    *,
    find: Callable[[], Sequence[RunPlace]],
    images: Sequence[Path],
) -> None:
    try:
        from retrain.view.serving import bind, serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise MissingDependency(
            f"retrain view needs {error.name}; install it with: pip install 'retrain[view]' "
            "(--html FILE needs nothing more)"
        ) from error

    def ready(url: str) -> None:
        typer.echo(json.dumps({"url": url}) if as_json else f"{title} is shown at {url}")
        if browser and not as_json:
            _open(url)

    try:
        serve(places, title, bind(port), find=find, when_ready=ready, images=images)
    except KeyboardInterrupt:
        return


def _open(url: str) -> None:
    """Open the page; over ssh, where `webbrowser` would start one in the terminal, nothing.

    Starting a browser may take until the page has answered it, so that a thread waits for it.
    """
    import threading
    import webbrowser

    windowed = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if windowed or sys.platform in ("darwin", "win32"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

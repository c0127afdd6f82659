"""How a command ends: its exit code, and one message on standard error.

0    done
1    the run failed (also: an error that nobody foresaw, with its traceback)
2    bad input: configuration, data, a missing package, an output folder, a wrong option
130  interrupted by Ctrl-C
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperCommand

from retrain.errors import ConfigError, DataError, MissingDependency, RetrainError, RunFolderError
from retrain.report.terminal import printable

BUG = "retrain did not foresee this error: please report it with the lines above"


class ExitCode(IntEnum):
    """What a command's exit code means."""

    DONE = 0
    RUN_FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


class RetrainCommand(TyperCommand):
    """A command whose failures end in a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RetrainError as error:
            say(f"error: {error}")
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            error.add_note(BUG)
            raise


def exit_code(error: RetrainError) -> ExitCode:
    """The exit code of an error that retrain raises on purpose."""
    bad_input = (ConfigError, DataError, MissingDependency, RunFolderError)
    return ExitCode.BAD_INPUT if isinstance(error, bad_input) else ExitCode.RUN_FAILED


def say(text: str) -> None:
    """Write a message to standard error, control characters escaped."""
    typer.echo(printable(text), err=True)


def tolerate_any_encoding() -> None:
    """Escape output that the terminal's encoding cannot write, instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

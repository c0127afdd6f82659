from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from retrain import __version__
from retrain.cli.exits import BUG, RetrainCommand, exit_code
from retrain.cli.main import app
from retrain.errors import (
    BackendFailure,
    ConfigError,
    DataError,
    EnvironmentFailure,
    MissingDependency,
    RunFolderError,
    TooManyFailures,
)

HEAVY = {
    *("torch", "transformers", "trl", "datasets", "numpy", "matplotlib"),
    *("pydantic", "ruamel", "rich", "jinja2"),
}


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def test_importing_the_command_line_loads_no_heavy_module() -> None:
    code = f"import sys, retrain.cli.main; print(sorted({HEAVY!r} & sys.modules.keys()))"
    assert python(code).stdout.strip() == "[]"


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("train", "plan", "rollout", "eval", "export", "doctor"):
        assert f"\n  {command} " in result.output


@pytest.mark.parametrize("command", ["train", "plan", "rollout", "eval", "export", "doctor"])
def test_the_help_of_a_command_has_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"\n    retrain {command}" in result.output


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"retrain {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["trian", "c.yaml"], ["plan"], ["plan", "c.yaml", "--jsn"], ["rollout", "c.yaml", "-n", "0"]],
)
def test_wrong_usage_is_bad_input(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr and result.stdout == ""
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError, 2),
        (DataError, 2),
        (MissingDependency, 2),
        (RunFolderError, 2),
        (BackendFailure, 1),
        (TooManyFailures, 1),
        (EnvironmentFailure, 1),
    ],
)
def test_the_exit_code_tells_bad_input_from_a_failed_run(
    error: type[ConfigError], code: int
) -> None:
    assert exit_code(error("why")) == code


def ending_in(error: BaseException) -> typer.Typer:
    commands = typer.Typer(pretty_exceptions_enable=False)

    @commands.command(cls=RetrainCommand)
    def fail() -> None:
        raise error

    return commands


def test_a_failure_is_one_message_without_control_characters() -> None:
    result = CliRunner().invoke(ending_in(BackendFailure("lost \x1b[31m it")), [])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: lost \\x1b[31m it\n"


def test_ctrl_c_ends_without_a_traceback() -> None:
    result = CliRunner().invoke(ending_in(KeyboardInterrupt()), [])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_an_error_that_nobody_foresaw_asks_to_be_reported() -> None:
    result = CliRunner().invoke(ending_in(KeyError("bug")), [])
    assert result.exit_code == 1
    assert isinstance(result.exception, KeyError)
    assert result.exception.__notes__ == [BUG]


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "retrain", "--help"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_output_that_the_encoding_cannot_write_is_escaped() -> None:
    code = "from retrain.cli.exits import *; tolerate_any_encoding(); print('\\u27e6')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.stdout, done.stderr) == (b"\\u27e6\n", b"")

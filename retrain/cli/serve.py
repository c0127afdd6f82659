"""`retrain serve`: a model behind SGLang's protocol, without a GPU if need be."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrain.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from retrain.engine.transformers_serving import LoadedModel

EXAMPLE = """\b
Examples:
  retrain serve runs/calculator/model
  retrain serve Qwen/Qwen3-0.6B --port 30000 --context-length 2048
  retrain serve model --weights-dir weights --json
  retrain rollout config.yaml --engine sglang --engine-url http://127.0.0.1:30000"""

_PARENT_POLL_SECONDS = 0.5
_LAST_CALL_SECONDS = 20.0


def serve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A Hugging Face folder, or a name on the hub.")
    ],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any free one.")
    ] = 30000,
    weights_dirs: Annotated[
        list[Path] | None,
        typer.Option(
            "--weights-dir",
            metavar="DIR",
            help="A folder in which new weights may arrive; may be repeated.",
        ),
    ] = None,
    context_length: Annotated[
        int | None,
        typer.Option("--context-length", min=2, help="Most tokens of a request, all told."),
    ] = None,
    most: Annotated[
        int,
        typer.Option("--max-running-requests", min=1, help="Most requests that run together."),
    ] = 256,
    dtype: Annotated[
        str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads of torch.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--random-seed", min=0, help="Seeds requests without a sampling_seed."),
    ] = None,
    version: Annotated[
        str, typer.Option("--weight-version", help="What the first weights are called.")
    ] = "default",
    with_parent: Annotated[
        bool,
        typer.Option("--exit-with-parent", help="Stop when the process that started it ends."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the line that says it is ready as JSON.")
    ] = False,
) -> None:
    """Serve a model as a SGLang server would, without a GPU.

    slime, rollout, eval and training on torch can ask it. Prints one line with its URL once it
    answers. Stops on Ctrl-C and SIGTERM.
    """
    if with_parent:
        _exit_with_parent()
    from retrain.engine.server_security import TOKEN_ENV, Access
    from retrain.engine.server_weights import WeightFolders

    access = Access(host, os.environ.get(TOKEN_ENV) or None)
    _require_packages()
    from retrain.engine.server_run import bind, url_of
    from retrain.engine.server_run import serve as run

    folders = WeightFolders(weights_dirs or ())
    listening = bind(host, port)
    url = url_of(host, listening)
    try:
        loaded = _load(model, dtype, threads, context_length, most, version)
        from retrain.engine.server_service import ModelService

        service = ModelService(loaded, folders, seed=seed)
        run(service, access, listening, when_ready=lambda: _say_ready(url, loaded, as_json))
    finally:
        listening.close()


def _require_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"retrain serve needs {error.name}; install it with: pip install 'retrain[serve]'"
        ) from error


def _load(
    name: str, dtype: str, threads: int | None, longest: int | None, most: int, version: str
) -> LoadedModel:
    from pydantic import ValidationError

    from retrain.config import ModelConfig
    from retrain.engine.transformers_serving import load_served

    try:
        config = ModelConfig.model_validate(
            {"name_or_path": name, "torch_dtype": dtype, "threads": threads}
        )
    except ValidationError as error:
        option = {"torch_dtype": "--dtype"}.get(str(error.errors()[0]["loc"][0]), "MODEL")
        raise ConfigError(f"{option}: {error.errors()[0]['msg']}") from error
    return load_served(config, context_length=longest, most=most, version=version)


def _say_ready(url: str, loaded: LoadedModel, as_json: bool) -> None:
    facts = {
        "url": url,
        "model": loaded.path,
        "weight_version": loaded.engine.weight_version,
        "context_length": loaded.context_length,
        "max_running_requests": loaded.max_running_requests,
        "pid": os.getpid(),
    }
    typer.echo(json.dumps(facts) if as_json else f"{loaded.path} is served at {url}")


def _exit_with_parent() -> None:
    """Stop when the parent is gone: its children then belong to another process.

    Polled, since the signal that Linux offers instead (PR_SET_PDEATHSIG) comes when the thread
    that started the process ends, not the process.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LAST_CALL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="retrain-parent", daemon=True).start()

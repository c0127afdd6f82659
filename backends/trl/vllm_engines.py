"""Makes the vLLM engine of a run, and what keeps its weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import torch

from backends.trl.session import Session
from backends.trl.vllm_planning import COLOCATED, SERVE, server_url
from backends.trl.vllm_weights import ColocatedWeights, ServerWeights
from retrain.engine.http_answer import ServedModel
from retrain.engine.http_client import ServerFault
from retrain.engine.vllm_engine import VLLMEngine
from retrain.engine.vllm_local import LocalVLLMEngine
from retrain.engine.vllm_loop import HERE
from retrain.errors import BackendFailure, RetrainError
from retrain.model_files import vocabulary_size
from retrain.runtime import EventLoopThread

_PAUSE = 1.0
"""Seconds between two looks for a server that is not up yet."""


def make_vllm(
    session: Session, loop: EventLoopThread
) -> tuple[VLLMEngine, ServerWeights] | tuple[LocalVLLMEngine, ColocatedWeights]:
    """Make the engine of `trl_vllm_mode`, and its keeper.

    A server is waited for and checked first, on every process, since TRL itself would talk to any.

    Raises:
        RetrainError: The server does not come up, or serves something else.
    """
    arguments, launch = session.plan.arguments, session.launch
    if arguments["vllm_mode"] == COLOCATED:
        local = LocalVLLMEngine(
            lambda: weights.llm, model=_served(session), enter=_device_of_this_process()
        )
        weights = ColocatedWeights(local, loop, launch, HERE)
        return local, weights
    url = server_url(arguments)
    engine = VLLMEngine(url, model=_served(session))
    failure: RetrainError | None = None
    try:
        seconds = float(arguments["vllm_server_timeout"])
        loop.run(_until_up(engine, seconds, session.config.model.name_or_path))
    except RetrainError as error:
        failure = error
    launch.agree(failure)
    return engine, ServerWeights(engine, loop, launch, f"the vLLM server at {url}")


async def _until_up(engine: VLLMEngine, seconds: float, model: str) -> None:
    clock = asyncio.get_running_loop()
    deadline = clock.time() + seconds
    while True:
        try:
            await engine.start()
            return
        except ServerFault as fault:
            if clock.time() + _PAUSE > deadline:
                raise BackendFailure(
                    f"algorithm.hyperparameters.trl_vllm_server_timeout: no vLLM server came up "
                    f"within {seconds:g} s ({fault}); start it with: {SERVE.format(model=model)}"
                ) from fault
        await asyncio.sleep(_PAUSE)


def _served(session: Session) -> ServedModel:
    tokenizer = session.tokenizer
    return ServedModel(
        session.config.model.name_or_path,
        vocabulary_size(session.config, None),
        lambda text: tokenizer.encode(text, add_special_tokens=False),
    )


def _device_of_this_process() -> Callable[[], None]:
    """Choose this process's GPU in the thread that steps vLLM; threads begin with the first one."""
    if not torch.cuda.is_available():
        return lambda: None
    device = torch.cuda.current_device()
    return lambda: torch.cuda.set_device(device)

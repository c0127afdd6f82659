"""Engines by name, as a configuration or a command line writes them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from sglang_server import SGLangServer

from retrain.config import ModelConfig
from retrain.engine import SamplingParams, ScriptedEngine
from retrain.engine.factory import ENGINES, EngineContext, make_engine
from retrain.engine.openai_engine import OpenAIEngine
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.vllm_engine import VLLMEngine
from retrain.errors import ConfigError

CONTEXT = EngineContext(ModelConfig(name_or_path="m"), max_context_len=64, concurrency=2)


def scripted(context: EngineContext, *, turns: int = 1) -> ScriptedEngine:
    return ScriptedEngine([[context.concurrency]] * turns)


def nothing(context: EngineContext) -> object:
    return object()


@pytest.mark.parametrize(
    ("name", "kind"), [("sglang", SGLangEngine), ("openai", OpenAIEngine), ("vllm", VLLMEngine)]
)
def test_engines_over_http_are_made_from_their_options(name: str, kind: type) -> None:
    spec = {"name": name, "urls": ["http://localhost:1", "http://localhost:2"], "timeout": 5}
    engine: Any = make_engine(spec, CONTEXT)
    assert type(engine) is kind
    assert engine.urls == ("http://localhost:1", "http://localhost:2")


async def test_the_engine_in_this_process_takes_the_model_of_the_run(weights: Any) -> None:
    model = ModelConfig(name_or_path=weights(0), threads=1)
    engine: Any = make_engine("transformers", EngineContext(model, 64, 2))
    answer = await engine.generate([1], SamplingParams(3), session_id="s", seed=0)
    engine.close()
    assert 0 < len(answer.output_ids) <= 3


async def test_an_import_path_plugs_in_another_engine() -> None:
    path = f"{__name__}:scripted"
    engine = make_engine({"name": path, "turns": 2}, CONTEXT)
    answer = await engine.generate([1], SamplingParams(3), session_id="s", seed=0)
    assert answer.output_ids == (2,)


async def test_the_run_s_tokenizer_is_held_against_the_server_s(serve: Any, started: Any) -> None:
    server = started(SGLangServer, serve())
    model = ModelConfig(name_or_path="ours")
    context = EngineContext(model, 64, 2, vocab_size=354, encode=lambda text: [1])
    engine: Any = make_engine({"name": "sglang", "urls": server.url}, context)
    with pytest.raises(ConfigError, match="another vocabulary than ours"):
        await engine.start()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sglnag", "unknown engine 'sglnag': did you mean 'sglang'"),
        ("sglang", r"engine\.urls: missing; build_sglang needs it"),
        ({"urls": "http://a:1"}, r"engine\.name: missing; known: openai, sglang"),
        ({"name": "vllm", "url": "http://a:1"}, r"engine\.url: .* did you mean 'urls'"),
        ({"name": "vllm", "urls": "http://a:1", "timeout": "5"}, r"engine\.timeout"),
        (f"{__name__}:nothing", "makes a object, not an engine"),
        (f"{__name__}:CONTEXT", "neither a function nor a class"),
    ],
)
def test_wrong_engines_are_one_error(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(spec, CONTEXT)


def test_the_names_are_listed_and_load_nothing_heavy() -> None:
    assert {"transformers", "sglang", "openai", "vllm"} <= set(ENGINES.names())
    check = (
        "import sys, retrain.engine.factory, retrain.engine.http_builders as b; "
        "assert not {'torch', 'aiohttp', 'httpx', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)

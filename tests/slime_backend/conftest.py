from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_runs import make_demo_model

sys.path.append(str(Path(__file__).parents[1] / "engine" / "http_engines"))


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, with random weights."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'retrain[engine]'")
    return make_demo_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def slime_config(demo_model: Path, tmp_path: Path) -> Callable[..., Any]:
    """Makes a configuration over `plugin_world`; keyword arguments are hyperparameters."""
    from retrain.config import RunConfig

    def make(**hyper: Any) -> RunConfig:
        sections = hyper.pop("sections", {})
        rows = hyper.pop("rows", [{"id": f"t{n}", "prompt": f"question {n}"} for n in range(5)])
        name = hyper.pop("name", "grpo")
        defaults = {
            "num_iterations": 3,
            "rollout_batch_size": 2,
            "n_samples_per_prompt": 3,
            "max_response_len": 200,
        }
        return RunConfig.model_validate(
            {
                "experiment_name": "plugin",
                "seed": 5,
                "output_dir": str(tmp_path / "run"),
                "model": {"name_or_path": str(demo_model)},
                "environment": {"type": "plugin_world:World"},
                "prompt_source": {"type": "list", "source_config": {"items": rows}},
                "rollout": {"engine": "plugin_world:scripted"},
                "algorithm": {
                    "name": name,
                    "backend": "slime",
                    "hyperparameters": {**defaults, **hyper},
                },
                **sections,
            }
        )

    return make


@pytest.fixture
def slime_args() -> Callable[..., Namespace]:
    """Makes slime's `args` with the handover on them; keyword arguments are options."""
    from backends.slime.handover import handover_document

    def make(config: Any, **options: Any) -> Namespace:
        hyper = config.algorithm.hyperparameters
        config.output_dir.mkdir(parents=True, exist_ok=True)
        defaults = {
            "rollout_batch_size": hyper.rollout_batch_size,
            "n_samples_per_prompt": hyper.n_samples_per_prompt,
            "reward_key": None,
            "hf_checkpoint": config.model.name_or_path,
        }
        document = handover_document(config, config.output_dir)
        return Namespace(**{**defaults, **document, **options})

    return make


@pytest.fixture
def served(demo_model: Path) -> Iterator[Any]:
    """A server that speaks SGLang's protocol, over the demo's model; it is its own router."""
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'retrain[dev]'")
    pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'retrain[http]'")
    import torch
    from served_model import Served
    from sglang_server import SGLangServer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from retrain.engine.transformers_engine import TransformersEngine

    torch.set_num_threads(1)
    path = str(demo_model)
    model = AutoModelForCausalLM.from_pretrained(path)
    engine = TransformersEngine(model, max_slots=4, max_seq_len=512, eviction_grace=0.0)
    tokenizer = AutoTokenizer.from_pretrained(path)
    server = SGLangServer(Served(path, model, tokenizer, engine), workers=("http://later",))
    server._workers = (server.url,)
    yield server
    server.kill()
    engine.close()


@pytest.fixture
def router_args(slime_args: Any, served: Any) -> Callable[..., Namespace]:
    """Slime's `args` where its router is `served`."""
    host, port = served.url.removeprefix("http://").split(":")

    def make(config: Any, **options: Any) -> Namespace:
        return slime_args(config, sglang_router_ip=host, sglang_router_port=int(port), **options)

    return make

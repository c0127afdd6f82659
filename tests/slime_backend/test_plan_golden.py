"""The exact command lines of five configurations, and slime's own parsers over each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from plan_configs import ASYNCHRONOUS, COLOCATED, LAPTOP, MULTI_NODE, SFT, make_config, model_folder

from backends.base import Plan
from backends.slime.argv import to_argv
from backends.slime.backend import SlimeBackend
from backends.slime.laptop.arguments import launch_arguments
from retrain.config import RunConfig, load_config

GOLDEN = Path(__file__).parent / "golden"
PARSER = Path(__file__).parent / "plan_parse.py"
SLIME, MEGATRON = (os.environ.get(f"RETRAIN_{name}", "") for name in ("SLIME", "MEGATRON"))


def multi_node(folder: Path) -> RunConfig:
    model = model_folder(folder / "model", "qwen3-30B-A3B")
    changed = [f"output_dir={folder / 'run'}", f"model.name_or_path={model}"]
    return load_config(MULTI_NODE, changed)


def planned(name: str, folder: Path) -> Plan:
    made = {"colocated": COLOCATED, "asynchronous": ASYNCHRONOUS, "sft": SFT, "laptop": LAPTOP}
    config = multi_node(folder) if name == "multi_node" else make_config(folder, made[name])
    return SlimeBackend().plan(config)


def shown(plan: Plan, folder: Path) -> str:
    """An option a line; the folders, which differ from machine to machine, by name."""
    text = " ".join([plan.entry, *to_argv(plan.arguments)])
    text = text.replace(str(folder / "run"), "RUN").replace(str(folder / "model"), "MODEL")
    return text.replace(str(folder), "FOLDER").replace(" --", "\n--") + "\n"


@pytest.mark.parametrize("name", ["colocated", "asynchronous", "multi_node", "sft", "laptop"])
def test_the_command_line_is_the_one_on_record(name: str, tmp_path: Path) -> None:
    plan = planned(name, tmp_path)
    assert not plan.errors
    assert shown(plan, tmp_path) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.slime
@pytest.mark.skipif(not (SLIME and MEGATRON), reason="set RETRAIN_SLIME and RETRAIN_MEGATRON")
@pytest.mark.parametrize("name", ["colocated", "asynchronous", "multi_node", "sft", "laptop"])
def test_slimes_own_parsers_take_the_command_line(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="slime's arguments import ray")
    plan = planned(name, tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "slime.yaml").write_text("retrain_config: {}\n")
    with listening_engine() as port:
        further = launch_arguments(tmp_path / "run", port) if name == "laptop" else []
        found = parse(plan, further)
    assert found["unknown"] == []
    args = found["args"]
    for option in ("num_rollout", "global_batch_size", "seed", "rollout_function_path", "lr"):
        assert args[option] == plan.arguments[option]
    assert args["world_size"] == plan.sizes["training_gpus"]
    assert args["data_parallel_size"] == plan.sizes["model_copies"]
    assert args["load"] == args["ref_load"], "a fresh run starts from the Hugging Face folder"
    assert args["attention_dropout"] == args["hidden_dropout"] == 0
    assert args["retrain_config"] == {}, "the handover reaches args"


class _ServerInfo(BaseHTTPRequestHandler):
    """What slime asks an engine that it has not started itself, while it reads its arguments."""

    def do_GET(self) -> None:
        sizes = dict.fromkeys(("tp_size", "pp_size", "dp_size", "ep_size"), 1)
        info = {**sizes, "disaggregation_mode": "null", "enable_memory_saver": False}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(info).encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def listening_engine() -> Iterator[int]:
    """The port of an engine that says what it is."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _ServerInfo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def parse(plan: Plan, further: Sequence[str] = ()) -> dict[str, Any]:
    """What slime makes of a command line, in a process of its own, with the laptop's imports."""
    root = Path(__file__).parents[2]
    path = [str(root / "backends" / "slime" / "laptop" / "site"), str(root), SLIME, MEGATRON]
    done = subprocess.run(
        [sys.executable, str(PARSER), *to_argv(plan.arguments), *further],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

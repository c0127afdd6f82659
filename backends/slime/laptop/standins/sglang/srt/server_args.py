"""The options of SGLang's server that slime reads (sglang/srt/server_args.py)."""

from __future__ import annotations

import argparse
import dataclasses


@dataclasses.dataclass
class ServerArgs:
    """What slime expects of a server; the one that answers is retrain's own."""

    model_path: str = ""
    trust_remote_code: bool = False
    random_seed: int = 0
    enable_memory_saver: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    nccl_port: int | None = None
    nnodes: int = 1
    node_rank: int = 0
    dist_init_addr: str | None = None
    gpu_id_step: int = 1
    base_gpu_id: int = 0
    tp_size: int = 1
    dp_size: int = 1
    pp_size: int = 1
    ep_size: int = 1
    moe_dp_size: int = 1
    skip_server_warmup: bool = True
    enable_draft_weights_cpu_backup: bool = False
    enable_metrics: bool = False
    enable_dp_attention: bool = False
    enable_deterministic_inference: bool = False

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Add the fields as options."""
        for field in dataclasses.fields(ServerArgs):
            flag = f"--{field.name.replace('_', '-')}"
            if isinstance(field.default, bool):
                parser.add_argument(flag, action="store_true", default=field.default)
            else:
                kind = int if isinstance(field.default, int) else str
                parser.add_argument(flag, type=kind, default=field.default)

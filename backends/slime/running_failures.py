"""What ends a run of slime, as one message that says what to do."""

from __future__ import annotations

from pathlib import Path

from retrain.errors import BackendFailure

_ADVICE = (
    (
        ("OutOfMemoryError", "CUDA out of memory", "CUDA error: out of memory"),
        "a GPU ran out of memory: lower slime_max_tokens_per_gpu, or "
        "slime_sglang_mem_fraction_static where engines share the GPUs",
    ),
    (
        ("NodeDiedError", "the node it was running on died", "marked dead", "unexpected system"),
        "a process or a whole node died under slime; its own log is in Ray's folder on that node "
        "(ray logs). Going on with --resume needs as many GPUs as before",
    ),
    (
        ("ConnectError", "ConnectionRefusedError", "ServerDisconnectedError", "ReadError"),
        "an engine answers no longer; look for its last lines (SGLangEngine, or sglang) in the log",
    ),
    (
        ("out of memory (OOM)", "OOM killer", "exit code -9", "exit code 137"),
        "something was killed, mostly for want of memory on the node: see dmesg, or lower "
        "rollout.concurrency",
    ),
)


def training_failure(error: str | None, message: str, log: Path) -> BackendFailure:
    """Make the failure to raise.

    Args:
        error: The exception that the log ends with; None where there is none.
        message: What the starter says about the end.
        log: slime's whole log.
    """
    lines = [f"slime failed: {error or message}"]
    lines += [
        advice for words, advice in _ADVICE if any(word in f"{error} {message}" for word in words)
    ][:1]
    return BackendFailure("\n".join(lines) + f"\n(the whole log: {log})")

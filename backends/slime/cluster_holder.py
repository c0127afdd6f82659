"""Holds a private Ray for the process that starts this script, and ends it with that process.

Run as `python cluster_holder.py TEMP_DIR START_OPTIONS…`. Ray lives until standard input ends:
when the starting process closes it or dies, however it dies. `ray start --block` stays one process
tree, so it is ended alone; `ray stop` would end everybody's. TEMP_DIR is removed at the end. Only
the standard library is imported: this file's folder is not on the path.
"""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 20.0


def main(temp_dir: str, options: list[str]) -> int:
    """Start Ray, wait until nobody holds standard input open, and end it.

    Args:
        temp_dir: Ray's folder for sockets and logs.
        options: Further words of `ray start`.

    Returns:
        0 where Ray was ended from here, else its own exit code.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    ray = subprocess.Popen(
        [*command, f"--temp-dir={temp_dir}", *options],
        stdin=subprocess.DEVNULL,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )
    released = threading.Event()

    def end_when_released() -> None:
        sys.stdin.buffer.read()
        released.set()
        ray.terminate()

    threading.Thread(target=end_when_released, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: ray.terminate())
    code = _wait(ray, released)
    shutil.rmtree(temp_dir, ignore_errors=True)
    return 0 if released.is_set() else code


def _wait(ray: subprocess.Popen[bytes], released: threading.Event) -> int:
    while True:
        try:
            return ray.wait(timeout=_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            if released.is_set():
                ray.kill()


def _end_with_parent() -> None:
    """Ask Linux to end this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

"""One laptop run: an engine, a private Ray, and slime's script in it."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack

from backends.slime.laptop.arguments import launch_arguments
from backends.slime.laptop.checkouts import find_checkouts
from backends.slime.laptop.engine import WEIGHTS, engine
from backends.slime.laptop.environment import laptop_environment
from backends.slime.laptop.processes import child
from backends.slime.launch_spec import SlimeLaunch

DRIVER = "backends.slime.laptop.driver"


def run_on_laptop(launch: SlimeLaunch) -> int:
    """Run slime's script to its end; blocks.

    However it ends, and however this process does, the engine and Ray end with it.

    Args:
        launch: What to run; its log goes to `on_line`.

    Returns:
        The script's exit code.

    Raises:
        ConfigError: A checkout is missing or another program.
        BackendFailure: The engine does not start.
        KeyboardInterrupt: Ctrl-C.
    """
    checkouts = find_checkouts(launch.config)
    environment = laptop_environment(launch, checkouts)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, launch.run_dir / WEIGHTS, ignore_errors=True)
        port = None
        if "--debug-train-only" not in launch.argv:
            port = stack.enter_context(engine(launch.config, launch.run_dir))
        words = [*launch.argv, *launch_arguments(launch.run_dir, port)]
        process = stack.enter_context(
            child(
                DRIVER,
                [str(checkouts.slime / launch.entry), *words],
                folder=checkouts.slime,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                environment=environment,
            )
        )
        assert process.stdout is not None
        for line in process.stdout:
            launch.on_line(line.rstrip("\n"))
        return process.wait()

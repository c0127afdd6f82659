"""Runs a program that nobody trusts, with limits, and alone where the machine allows it.

`running` is what a caller uses: `run_isolated` and `isolation_level`. Everything else happens in a
worker process of `retrain.reward.hub.pool`: `worker` starts, watches and ends one program, `child`
becomes it, `namespaces` and `processes` talk to the kernel.

What each level stops, and what it does not:

- `namespaces` (Linux with user namespaces): the program has a file system of its own (the Python
  installation and the system's libraries, read-only, and a work folder in memory), no network, no
  sight of other processes, and no privilege over anything outside. It shares the kernel: a fault of
  the kernel, or a side channel of the CPU, is not stopped.
- `user` (root without user namespaces): the program runs as `nobody`. It reads what everybody may
  read, writes where everybody may write, and reaches the network.
- `limits` (everything else): the program runs as you. It can read and change what you can, your
  keys and other processes included, and reaches the network.

On every level its environment is empty, CPU seconds, wall seconds, memory, processes, open files,
file sizes, disk and output are limited, and its processes are ended with it. Limits stop accidents;
only `namespaces` is meant for code that tries to get out, and for code that is known to be hostile
a virtual machine is the right place.
"""

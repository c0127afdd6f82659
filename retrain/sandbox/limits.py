"""What a program may use, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MEBIBYTE = 2**20


class Level(StrEnum):
    """How a program is kept apart; `retrain.sandbox` says what each level stops."""

    NAMESPACES = "namespaces"
    USER = "user"
    LIMITS = "limits"


class Stopped(StrEnum):
    """Which limit ended a program."""

    SECONDS = "seconds"
    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use.

    Attributes:
        seconds: Wall time, and CPU time of one process.
        memory: Bytes of address space of one process, and of resident memory of all (with 64 MiB
            more for those that watch it); at most 4 GiB.
        processes: Processes and threads at once.
        files: Open files of one process.
        file_bytes: Length of one file.
        disk: Bytes of all files together; in memory on the level `namespaces`.
        output: Bytes on standard output, and on standard error.
    """

    seconds: float = 6.0
    memory: int = 1024 * MEBIBYTE
    processes: int = 32
    files: int = 64
    file_bytes: int = 16 * MEBIBYTE
    disk: int = 64 * MEBIBYTE
    output: int = 4 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: Python, with arguments.

    Attributes:
        arguments: The interpreter's arguments; it adds no folder and no environment of its own.
        stdin: Text for standard input.
        files: Files in the work folder, by name.
        read: Folders that the program may read beside the standard library.
        packages: Whether it may import what is installed beside retrain.
    """

    arguments: tuple[str, ...]
    stdin: str = ""
    files: dict[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    packages: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    Attributes:
        code: Its exit code, negative for a signal; None where a limit ended it.
        stopped: That limit.
        stdout: What it wrote, as UTF-8; bytes that are none are replaced.
        stderr: The same of its standard error, its last 4,000 characters.
        seconds: Wall time.
    """

    code: int | None
    stopped: Stopped | None
    stdout: str
    stderr: str
    seconds: float

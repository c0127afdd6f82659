"""Linux calls that Python 3.11 has no functions for, and a file system made of them."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence
from contextlib import suppress

NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""CLONE_NEW: USER, NS (mounts), PID, NET, IPC and UTS, from linux/sched.h."""

INSIDE = 1000
"""The user and the group of a program inside its namespace."""

_PDEATHSIG, _DUMPABLE, _CAPBSET_DROP, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 24, 36, 38
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC = 1, 2, 4, 32, 4096, 16384
_PRIVATE, _DETACH = 1 << 18, 2
_KEPT = 2 | 4 | 8 | 1024 | 2048  # the flags that statvfs and mount have in common
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_ROOT = "/tmp"
_BYTES_PER_FILE = 4096
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/nix/store")


def die_with_parent(signal: int) -> None:
    """Let the kernel send this process a signal as soon as its parent ends."""
    _prctl(_PDEATHSIG, signal)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_SUBREAPER, 1)


def hide_memory(hidden: bool = True) -> None:
    """Keep other processes of the same user from reading or tracing this one, or let them again."""
    _prctl(_DUMPABLE, int(not hidden))


def gain_nothing() -> None:
    """Let no later `exec` give this process a privilege, and give up those that `exec` could."""
    _prctl(_NO_NEW_PRIVS, 1)
    for capability in range(64):
        _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last, and without right


def unshare() -> None:
    """Enter new namespaces; the process id changes for children only.

    Raises:
        OSError: The kernel does not allow it.
    """
    _check(_LIBC.unshare(NEW_NAMESPACES), "unshare")


def map_user(pid: int, outside: int) -> None:
    """Say who the users of another process's new namespace are outside.

    Args:
        pid: The process.
        outside: The user that a program runs as where we may choose, as root may; else it is ours.

    Raises:
        OSError: The kernel does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        maps = (f"0 0 1\n{INSIDE} {outside} 1\n", f"0 {group} 1\n{INSIDE} {outside} 1\n")
    else:
        _write(f"/proc/{pid}/setgroups", "deny")
        maps = (f"{INSIDE} {user} 1\n", f"{INSIDE} {group} 1\n")
    _write(f"/proc/{pid}/uid_map", maps[0])
    _write(f"/proc/{pid}/gid_map", maps[1])


def enter_new_root(read: Sequence[str], work: str, size: int) -> None:
    """Make a file system with little in it the root of this mount namespace.

    Args:
        read: Folders to show read-only beside the system's libraries, as absolute real paths.
        work: The one writable folder, in memory; it becomes the current folder.
        size: Its bytes; it holds a file for every 4 KiB at most.

    Raises:
        OSError: The kernel does not allow it.
    """
    _mount("none", "/", None, _REC | _PRIVATE)
    links = {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}
    shown = [path for path in (*_SYSTEM, *read) if path not in links and os.path.exists(path)]
    devices = [f"/dev/{name}" for name in _DEVICES]
    opened = {path: os.open(path, os.O_PATH) for path in (*shown, *devices)}
    _mount("tmpfs", _ROOT, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    for path, target in links.items():
        os.symlink(target, _ROOT + path)
    for path, descriptor in opened.items():
        _show(descriptor, _ROOT + path)
    os.makedirs(_ROOT + work, exist_ok=True)
    _mount(
        *("tmpfs", _ROOT + work, "tmpfs", _NOSUID | _NODEV),
        f"size={size},nr_inodes={size // _BYTES_PER_FILE},mode=700",
    )
    os.chown(_ROOT + work, INSIDE, INSIDE)
    _own_proc()
    _pivot()
    for descriptor in opened.values():
        os.close(descriptor)
    _read_only("/")
    os.chdir(work)


def allow_no_namespace() -> None:
    """Let nobody in this user namespace create another one; in vain where /proc/sys is closed."""
    with suppress(OSError):
        _write("/proc/sys/user/max_user_namespaces", "0")


def _show(descriptor: int, path: str) -> None:
    """Bind an open file or folder, and all that is mounted below it, read-only to a path."""
    source = f"/proc/self/fd/{descriptor}"
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x"):
            pass
    _mount(source, path, None, _BIND | _REC)
    if not path.startswith(f"{_ROOT}/dev/"):
        _read_only(path, deep=True)


def _read_only(path: str, *, deep: bool = False) -> None:
    attributes = (ctypes.c_uint64 * 4)(_RDONLY, 0, 0, 0)
    done = _LIBC.syscall(
        *(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE if deep else 0),
        *(ctypes.byref(attributes), ctypes.sizeof(attributes)),
    )
    if done != 0:  # before Linux 5.12: mounts below this one keep their state
        _mount("none", path, None, _BIND | _REMOUNT | _RDONLY | os.statvfs(path).f_flag & _KEPT)


def _own_proc() -> None:
    """Show the processes of this namespace; where that is not allowed, none."""
    os.mkdir(f"{_ROOT}/proc")
    with suppress(OSError):
        _mount("proc", f"{_ROOT}/proc", "proc", _NOSUID | _NODEV, "subset=pid")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{_ROOT}/dev/{name}")
    os.symlink("/proc/self/fd", f"{_ROOT}/dev/fd")


def _pivot() -> None:
    os.chdir(_ROOT)
    number = _PIVOT_ROOT.get(platform.machine(), -1)
    _check(_LIBC.syscall(number, b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    done = _LIBC.mount(
        *(source.encode(), target.encode(), None if kind is None else kind.encode()),
        *(ctypes.c_ulong(flags), options.encode() or None),
    )
    _check(done, f"mount {target}")


def _prctl(option: int, value: int) -> None:
    _check(_LIBC.prctl(option, value, 0, 0, 0), "prctl")


def _check(done: int, what: str) -> None:
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


_LIBC = ctypes.CDLL(None, use_errno=True)

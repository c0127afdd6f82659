"""One process per run folder: an advisory lock that dies with its process."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import weakref
from pathlib import Path
from typing import ClassVar

from retrain.errors import RunFolderError

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


class FolderLock:
    """A held `flock` on a file in the folder.

    The kernel releases it when the process ends, however it ends. A forked child gives up its copy
    of the descriptor at once, so that a worker left behind does not keep the folder locked.

    Attributes:
        supported: False where the file system knows no locks; nothing is then protected.
    """

    _held: ClassVar[weakref.WeakSet[FolderLock]] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        """Take the lock, making the file where it does not exist.

        Args:
            path: The lock file.

        Raises:
            RunFolderError: Another process holds it.
            OSError: The file cannot be made.
        """
        self.path = path
        self.supported = True
        self.made_file = not path.exists()
        self._descriptor = self._open_and_lock()
        self._held.add(self)

    def release(self, *, remove: bool = False) -> None:
        """Give the lock back; does nothing where that has been done.

        Args:
            remove: Also remove the file.
        """
        if self._descriptor < 0:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        self._forget()

    def _open_and_lock(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                self._lock(descriptor)
                if _is_still(self.path, descriptor):
                    _sign(descriptor)
                    return descriptor
            except RunFolderError:
                os.close(descriptor)
                raise
            except OSError:
                os.close(descriptor)
                if self.made_file:
                    self.path.unlink(missing_ok=True)
                raise
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise RunFolderError(
                f"{self.path.parent} is in use by process {holder or '(unknown)'}; "
                f"wait for it to end, stop it, or choose another output_dir"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self.supported = False

    def _forget(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @classmethod
    def forget_all(cls) -> None:
        """Close this process's copies of the descriptors, without unlocking."""
        for lock in list(cls._held):
            lock._forget()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a folder; False where nobody can tell."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _sign(descriptor: int) -> None:
    """Write who holds the lock, for the message that others get."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one at `path`, and not one that its holder removed."""
    try:
        at_path = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(at_path, os.fstat(descriptor))


os.register_at_fork(after_in_child=FolderLock.forget_all)

"""Optional packages of the adapters: looked for when an environment is made, imported when used."""

from __future__ import annotations

from importlib.util import find_spec

from retrain.errors import MissingDependency


def require(package: str, what: str, install: str) -> None:
    """Check that a package is installed, without importing it.

    Args:
        package: The top-level package that is imported.
        what: What needs it ("environment gem").
        install: What pip installs ("retrain[gem]").

    Raises:
        MissingDependency: It is not; the message holds the command that installs it.
    """
    if find_spec(package) is None:
        raise MissingDependency(
            f"{what} needs the package {package}; install it with: pip install '{install}'"
        )

"""The token that a Ray asks for: where it is looked for, and what to do without one.

Ray turns token authentication on by default from 2.60 on. Its own client sends a token only where
RAY_AUTH_MODE=token is set, so it is found here, in the order that Ray documents.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


def find_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """The token for clusters that others started; None where there is none.

    Args:
        environment: Environment variables.
    """
    if environment.get(MODE, "").lower() == "disabled":
        return None
    if environment.get(TOKEN):
        return environment[TOKEN]
    named = environment.get(TOKEN_PATH)
    path = Path(named).expanduser() if named else Path.home() / ".ray" / "auth_token"
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def token_problem(address: str, *, sent: bool) -> str:
    """What to tell a user whom a cluster has turned away.

    Args:
        address: The cluster's job server.
        sent: Whether a token was sent.
    """
    wrong = (
        "does not take the token that was found" if sent else "wants a token, and none was found"
    )
    return (
        f"cluster.address: the Ray at {address} {wrong}; on its head node "
        "`ray get-auth-token` prints it: put it into the environment here as RAY_AUTH_TOKEN (or "
        "its file's path as RAY_AUTH_TOKEN_PATH), never into a configuration file"
    )

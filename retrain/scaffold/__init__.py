"""`retrain init`: projects to start from, each of which trains at once."""

from __future__ import annotations

from retrain.scaffold.project import KINDS, make_project

__all__ = ["KINDS", "make_project"]

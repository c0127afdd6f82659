"""`check_environment`: `EnvironmentSuite` over an environment, without a test file.

The suite runs in a process of its own, so an environment that hangs, or ends its process, is a
finding like any other.
"""

from __future__ import annotations

from retrain.testing.checking.findings import Check, Finding, Outcome
from retrain.testing.checking.run import check_environment
from retrain.testing.checking.subject import Subject, load_subject

__all__ = ["Check", "Finding", "Outcome", "Subject", "check_environment", "load_subject"]

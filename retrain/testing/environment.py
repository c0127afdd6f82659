"""`EnvironmentSuite`: does an environment play episodes that can be trained on?"""

from __future__ import annotations

from retrain.testing.environment_forms import FormTests
from retrain.testing.environment_independence import IndependenceTests


class EnvironmentSuite(IndependenceTests, FormTests):
    """Plays short episodes with canned actions: answers, tool calls, nonsense.

    Subclass it and define `make_environment`. Any object that `environment.type` takes will do;
    `EnvironmentHooks` says what else can be told.
    """

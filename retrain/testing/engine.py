"""`EngineSuite`: does an engine write turns as training needs them?"""

from __future__ import annotations

from retrain.testing.engine_sessions import SessionTests
from retrain.testing.engine_turns import TurnTests


class EngineSuite(TurnTests, SessionTests):
    """Asks an engine for turns and holds them against each other.

    Subclass it and define `make_engine`, which is called for every test, inside an event loop;
    `EngineHooks` says what else can be told. Most tests sample greedily (temperature 0), which
    every engine repeats, seeded or not.
    """

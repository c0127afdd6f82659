"""`reward_model`: a sequence classifier of transformers that scores whole conversations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from retrain.errors import ConfigError
from retrain.reward.hub.cases import Case
from retrain.reward.hub.catalogue import require
from retrain.reward.hub.reward_model_conversations import Chat, case_chat, episode_chat
from retrain.reward.hub.reward_model_settings import ModelSettings
from retrain.reward.hub.service_tally import Tally
from retrain.types import Trajectory

if TYPE_CHECKING:
    from retrain.reward.hub.reward_model_classifier import Classifier


def reward_model(
    model: str,
    *,
    revision: str | None = None,
    device: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    max_length: int | None = None,
    truncation: Literal["left", "right"] = "left",
    batch_tokens: int = 16384,
    index: int | None = None,
    sigmoid: bool = False,
    trust_remote_code: bool = False,
) -> Callable[[Sequence[Trajectory]], list[float]]:
    """Make a reward of a model that `AutoModelForSequenceClassification` loads.

    It is loaded when the first episode is scored, which takes its time: give the component a
    `timeout` that allows for it. It is freed at the end of the run.

    Args:
        model: A folder, or a name on the hub.
        revision: Which version of it.
        device: Where it computes; None for the GPU where there is one.
        dtype: The type of its weights; "auto" for the checkpoint's on a GPU, float32 on a CPU.
        max_length: Most tokens of a conversation; None for the most that the model knows.
        truncation: Which end of a longer one is cut off: the left one keeps the last answer.
        batch_tokens: Most tokens in one forward pass, padding included.
        index: Which of several labels is the reward; a model with one needs none.
        sigmoid: Whether to map the score to 0…1.
        trust_remote_code: Whether the model's own code may run.

    Returns:
        A `ModelReward`.

    Raises:
        ConfigError: A number is too small.
        MissingDependency: torch or transformers is not installed.
    """
    for package in ("torch", "transformers"):
        require(package, "retrain[engine]", what="reward_model")
    for name, value in (("max_length", max_length), ("batch_tokens", batch_tokens)):
        if value is not None and value < 1:
            raise ConfigError(f"reward_model.{name}: {value}, expected at least 1")
    settings = ModelSettings(
        name=model,
        revision=revision,
        device=device,
        dtype=dtype,
        max_length=max_length,
        truncation=truncation,
        batch_tokens=batch_tokens,
        index=index,
        sigmoid=sigmoid,
        trust_remote_code=trust_remote_code,
    )
    return ModelReward(settings)


class ModelReward:
    """Scores conversations with one classifier; safe to use from any thread, one at a time.

    Args:
        settings: Which model, and how it is used.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.__name__ = "reward_model"
        self._settings = settings
        self._classifier: Classifier | None = None
        self._using = threading.Lock()
        self._tally = Tally()

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """The scores of episodes, of any number of groups; NaN where a template raised."""
        return self.score([episode_chat(trajectory) for trajectory in trajectories])

    def score_cases(self, cases: Sequence[Case]) -> list[float]:
        """The scores of responses to prompts; NaN where there is no prompt or a template raised."""
        return self.score([case_chat(case) for case in cases])

    def score(self, chats: Sequence[Chat | None]) -> list[float]:
        """The scores of conversations, in order; NaN where there is none.

        Raises:
            ConfigError: The model cannot be loaded, or cannot give a reward.
        """
        with self._using:
            classifier = self._loaded()
            began = time.perf_counter()
            scores = classifier.score(chats, self._tally)
            self._tally.add("seconds", time.perf_counter() - began)
        return scores

    def measured(self) -> dict[str, float]:
        """What was counted since the last call.

        Returns:
            `conversations`, `tokens`, `truncated` (conversations), `batches`, `padding` (tokens),
            `seconds`, and `unscored` and `too_large` (batches parted in two) where there were any.
        """
        return self._tally.take()

    def totals(self) -> dict[str, float]:
        """What was counted in all."""
        return self._tally.totals()

    def summary(self) -> str:
        """What was counted in all, in a line."""
        return ", ".join(f"{name} {total:.6g}" for name, total in sorted(self.totals().items()))

    def close(self) -> None:
        """Free the model; a later call loads it again."""
        with self._using:
            classifier, self._classifier = self._classifier, None
        if classifier is not None:
            classifier.free()

    def _loaded(self) -> Classifier:
        if self._classifier is None:
            from retrain.reward.hub.reward_model_classifier import Classifier

            self._classifier = Classifier(self._settings)
        return self._classifier

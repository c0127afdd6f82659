"""`type: gem`: the environments of GEM (gem-llm), `gem.make(id)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from retrain.environment.adapters.gymnasium import GymnasiumEnvironment


class GemEnvironment(GymnasiumEnvironment):
    """Plays one episode of a GEM environment.

    As GEM's own observation wrappers do, the `prefix` and `suffix` of its info stand around the
    observation. GEM draws from the process's random generators, so they are the episode's own.

    Args:
        id: A registered name (`game:GuessTheNumber-v0-easy`, `rg:letter_counting`).
        arguments: Keyword arguments for `gem.make`.
        system_prompt: A system message before the first observation.
        own_random: False where an environment waits for something else than the processor, and
            draws nothing from the process's generators: its calls then run side by side.

    Raises:
        MissingDependency: GEM is not installed.
    """

    package: ClassVar[str] = "gem"
    install: ClassVar[str] = "retrain[gem]"
    by_path: ClassVar[bool] = False

    def __init__(
        self,
        *,
        id: str,
        arguments: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        own_random: bool = True,
    ) -> None:
        super().__init__(
            id=id, arguments=arguments, system_prompt=system_prompt, own_random=own_random
        )

    def _text(self, observation: Any, info: Any) -> str:
        text = super()._text(observation, info)
        said = info if isinstance(info, Mapping) else {}
        return f"{said.get('prefix', '')}{_with_line_end(text, said)}{said.get('suffix', '')}"


def _with_line_end(text: str, said: Mapping[str, Any]) -> str:
    return text if text.endswith("\n") or not said.get("suffix") else f"{text}\n"

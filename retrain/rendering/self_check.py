"""`SelfCheck`: what a template is exact for, found once for each kind of reply."""

from __future__ import annotations

from collections.abc import Sequence

from retrain.environment.base import ToolSchema
from retrain.errors import RenderingFailure
from retrain.rendering.base import HistoryMode
from retrain.rendering.check import check_shape, check_tools, check_whole
from retrain.rendering.delta import DeltaText
from retrain.rendering.reading import TurnReader
from retrain.rendering.shape import LOOKUP_TOOL, STANDARD_SHAPES, Shape
from retrain.rendering.template import ChatTemplate
from retrain.rendering.turn import TurnText
from retrain.rendering.whole import WholeText
from retrain.types import Message

TOOL_LIST = "tools in the prompt"


class SelfCheck:
    """Checks a kind of reply when it is first needed, and keeps what was found."""

    def __init__(
        self,
        template: ChatTemplate,
        deltas: DeltaText,
        whole: WholeText,
        turns: TurnText,
        reader: TurnReader,
        *,
        readable: bool,
    ) -> None:
        """Check that the template shows tools; the rest is checked when it is asked for.

        Args:
            template: Renders the real conversations.
            deltas: Renders replies alone.
            whole: Renders conversations from their beginning.
            turns: Writes turns as the model would.
            reader: Reads them.
            readable: Whether a parser reads the calls that the template writes, or was named.
        """
        self._template = template
        self._deltas = deltas
        self._whole = whole
        self._turns = turns
        self._reader = reader
        self._appended: dict[Shape, tuple[int, ...] | RenderingFailure] = {}
        self._rewritten: dict[Shape, RenderingFailure | None] = {}
        self._tools_fault = self._check_tools(readable)

    def require_tools(self) -> None:
        """Refuse tools where a prompt cannot show them.

        Raises:
            RenderingFailure: The template leaves them out, or nothing reads its calls.
        """
        if self._tools_fault is not None:
            raise RenderingFailure(str(self._tools_fault))

    def require_delta(self, shape: Shape) -> tuple[int, ...]:
        """Refuse a kind of reply that cannot be appended exactly.

        Returns:
            The control tokens that every such reply appends, in order.

        Raises:
            RenderingFailure: Naming what the template does wrong.
        """
        found = self._delta(shape)
        if isinstance(found, RenderingFailure):
            raise RenderingFailure(str(found))
        return found

    def require_whole(self, shape: Shape) -> None:
        """Refuse a kind of reply behind which a conversation cannot be rendered whole.

        Raises:
            RenderingFailure: Naming what the template does wrong, or what is not read as written.
        """
        fault = self._end_of_whole(shape)
        if fault is not None:
            raise RenderingFailure(str(fault))

    def report(self, history: HistoryMode) -> dict[str, str | None]:
        """Each standard kind of reply with the template's fault; None where it is exact."""
        check = self._end_of_whole if history == "template" else self._delta
        report = {TOOL_LIST: str(self._tools_fault) if self._tools_fault else None}
        for shape in STANDARD_SHAPES:
            checked = check(shape)
            report[shape.name] = str(checked) if isinstance(checked, RenderingFailure) else None
        return report

    def _delta(self, shape: Shape) -> tuple[int, ...] | RenderingFailure:
        if shape not in self._appended:
            try:
                self._appended[shape] = check_shape(self._template, self._deltas, shape)
            except RenderingFailure as failure:
                self._appended[shape] = failure
        return self._appended[shape]

    def _end_of_whole(self, shape: Shape) -> RenderingFailure | None:
        if shape not in self._rewritten:
            self._rewritten[shape] = None
            try:
                rounds = True in self._deltas.terminators
                check_whole(self._whole, self._read_back, shape, tool_rounds=rounds)
            except RenderingFailure as failure:
                self._rewritten[shape] = failure
        return self._rewritten[shape]

    def _read_back(
        self, history: Sequence[Message], message: Message, tools: Sequence[ToolSchema]
    ) -> Message:
        """What is read in the turn that the model would sample to write a message."""
        return self._reader.read_back(self._turns.ids(history, message, tools))

    def _check_tools(self, readable: bool) -> RenderingFailure | None:
        if not readable:
            return RenderingFailure(
                "no parser reads the tool calls that the chat template writes, if it writes any; "
                "set rendering.tool_format to the format that the prompt asks for"
            )
        try:
            check_tools(self._template, (LOOKUP_TOOL,))
        except RenderingFailure as failure:
            return failure
        return None

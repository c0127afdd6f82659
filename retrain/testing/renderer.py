"""`RendererSuite`: do replies become exactly the tokens that they add?"""

from __future__ import annotations

from retrain.testing.renderer_parsing import ParsingTests
from retrain.testing.renderer_replies import ReplyTests
from retrain.testing.renderer_stream import StreamTests


class RendererSuite(ReplyTests, StreamTests, ParsingTests):
    """Renders canned replies and reads canned turns.

    Subclass it and define `make_renderer`; `RendererHooks` says what else can be told. A renderer
    may refuse what its template cannot express (`RenderingFailure`): then the test is skipped, with
    the reason; it may never render it wrongly.
    """

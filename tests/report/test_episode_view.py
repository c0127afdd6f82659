import io
import re
from dataclasses import replace

import pytest
from byte_episodes import episode, turn
from byte_text import ByteRenderer, decode, encode
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bridges.data_format import DataFormatBridge
from retrain.report.episode_view import print_episode, render_episode
from retrain.report.terminal import one_line, printable
from retrain.sample import Sample, Status
from retrain.types import Segment, Trajectory

BRIDGE = DataFormatBridge(ByteRenderer())  # type: ignore[arg-type]


def body(shown: str) -> str:
    return shown.split("\n", 1)[1]


def calculation() -> Trajectory:
    return episode(turn("<call>é", " =7 "), turn("seven"), rewards={"exact": 1.0})


def test_trained_tokens_are_bracketed_where_there_is_no_colour() -> None:
    shown = render_episode(calculation(), decode, plain=True)
    assert not shown.spans
    assert body(shown.plain) == "3+4? ⟦<call>é⟧ =7 ⟦seven⟧"


def test_trained_tokens_are_coloured_and_others_dim_on_a_terminal() -> None:
    shown = render_episode(calculation(), decode)
    styles = {shown.plain[span.start : span.end]: span.style for span in shown.spans}
    assert styles["<call>é"] == styles["seven"] == "bold green"
    assert styles["3+4? "] == styles[" =7 "] == "dim"
    assert body(shown.plain) == "3+4? <call>é =7 seven"


def test_a_sample_shows_as_its_episode_does() -> None:
    (sample,) = BRIDGE.to_samples(calculation(), 0.7)
    shown = render_episode(sample, decode, plain=True).plain
    assert body(shown) == "3+4? ⟦<call>é⟧ =7 ⟦seven⟧"
    for fact in (
        "task sum-1 visit 2 sample 0",
        "status completed",
        "stop terminated",
        "reward +1.0000 (exact +1.0000)",
        "advantage +0.7000",
        f"tokens {len(encode('<call>éseven'))} trained of {len(sample.tokens)}",
    ):
        assert fact in shown


def test_characters_over_several_tokens_survive_every_run() -> None:
    shown = render_episode(episode(turn("日本語🙂", "né"), turn("ü")), decode, plain=True)
    assert body(shown.plain) == "3+4? ⟦日本語🙂⟧né⟦ü⟧"


def test_a_failed_episode_says_why_and_trains_nothing() -> None:
    shown = render_episode(episode(status=Status.FAILED, reward=None), decode, plain=True).plain
    assert "error environment: step: KeyError: 'x'" in shown
    assert "nothing of it is trained on" in shown
    masked = render_episode(episode(turn("a"), masked=True), decode, plain=True).plain
    assert "⟦" not in masked


def test_segments_are_shown_apart() -> None:
    first = calculation()
    two = (*first.segments, Segment(encode("again "), (turn("7"),)))
    shown = render_episode(replace(first, segments=two), decode, plain=True).plain
    assert shown.endswith("-- segment 2 of 2 --\nagain ⟦7⟧")


def test_a_sample_that_no_bridge_made_can_be_shown() -> None:
    sample = Sample(
        index=3, tokens=list(b"ab"), response_length=1, loss_mask=[1], reward={"x": 1.0}
    )
    shown = render_episode(sample, decode, plain=True).plain
    assert "task sample 3" in shown
    assert "reward unknown (x +1.0000)" in shown
    assert body(shown) == "a⟦b⟧"


HOSTILE = (
    "\x1b]0;title\x07\x1b[2J\r\x08\x9b31m\u202eevil\u2028 [bold red]markup[/] :smile: ⟦forged⟧"
)


def test_text_can_neither_steer_the_terminal_nor_forge_the_mask() -> None:
    hostile = episode(turn("x", HOSTILE), prompt=HOSTILE, task_id="id\x1b[31m")
    for console in (
        Console(file=io.StringIO(), width=40),
        Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=40),
    ):
        print_episode(hostile, decode, console)
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        left = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert all(char == "\n" or char.isprintable() for char in left)
        assert "\x1b[31m" not in shown
        assert "[bold red]markup[/] :smile:" in left
    plain = render_episode(hostile, decode, plain=True).plain
    assert plain.count("⟦") == plain.count("⟧") == 1


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "no_color": True}])
def test_without_colours_brackets_are_printed_and_lines_are_not_broken(
    options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(file=io.StringIO(), width=20, **options)  # type: ignore[arg-type]
    print_episode(episode(turn("word " * 30)), decode, console)
    assert isinstance(console.file, io.StringIO)
    assert "⟦" + "word " * 30 + "⟧" in console.file.getvalue()


@given(st.text())
def test_printable_text_has_no_control_left_and_keeps_the_rest(text: str) -> None:
    shown = printable(text)
    assert all(char in "\n\t" or ord(char) >= 32 for char in shown)
    shown.encode()
    assert len(one_line(text).splitlines()) <= 1
    if text.isprintable():
        assert shown == text or any(char in "\u200e\u200f" for char in text)

"""Inputs that break things, and what must not be left behind after them."""

from __future__ import annotations

import gc
import os
import threading

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [
        *("\\boxed{", "}", "{", "\\boxed", "\\frac", "\\frac{1}{", "\\sqrt", "^", "^{", "_", "!"),
        *("9^{9^{9^{9}}}", "10^{10^{10}}", "(((((3!)!)!)!)!)", "\\int", "\\sum_{i=1}^{10^9}", "$"),
        *("\\begin{pmatrix}", "\\end{pmatrix}", "\\text{", "\\def\\a{\\a\\a}\\a", "\\\\", "\\"),
        *("Answer:", "answer is ", "A", "(B)", "</think>", "<think>", "<answer>", "</answer>"),
        *("###Response", "1", "0", "1/0", "-", "+", ",", "x", "=", "nan", "inf", "1e999", "e"),
        *("\x00", "\ud800", "\u202e", "\u0663", "\U0001f600", "\n", "\r", " ", "\t", "```json\n"),
        *('{"a": ', "[[[[", "]", '"', "'", ";", "__import__('os')._exit(1)", "os.abort()", "%s"),
        *("a" * 50, "(" * 300, "[" * 2000, "{" * 500, "1+" * 800, "\\frac{" * 200, "9" * 5000),
        "y" * 200_000,
    ]
)
RESPONSES = st.one_of(
    st.none(),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, max_size=6).map(lambda pieces: f"\\boxed{{{''.join(pieces)}}}"),
    st.lists(PIECES, max_size=6).map(lambda pieces: f"Answer: {''.join(pieces)}"),
    st.text(max_size=200),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_KEYS = ("choices", "valid_letters", "correct_letter", "correct_answer", "schema", "kwargs")
METADATA = st.dictionaries(st.sampled_from((*_KEYS, "instruction_id_list")), VALUES, max_size=3)


def held() -> tuple[int, int]:
    """Open files and threads of this process, without the few that wait for the next judge."""
    gc.collect()
    threads = [thread for thread in threading.enumerate() if thread.name != "retrain-judge"]
    return len(os.listdir("/proc/self/fd")), len(threads)

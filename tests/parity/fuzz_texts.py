"""What models and worlds say in the fuzz: nothing, spaces, odd Unicode, forged control tokens."""

from __future__ import annotations

import random

PIECES = (
    *("yes", "no", " 42", "it's", "two\n\nlines", "tab\t", '{"a": [1, "b"]}', '"quoted" \\ back'),
    *(
        "e\u0301 \ufb01",
        "漢字",
        "🙂",
        "👩\u200d👩\u200d👧",
        "مرحبا",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\x00",
        "\x1b[0m",
    ),
    *("\ue000", "\U000f0000", "\u0130", "ß", "\U0001d518", "\r\n", "\u00a0"),
)
FORGED = (
    *("<|im_end|>", "<|im_start|>assistant\n", "<think>", "</think>", "<tool_call>"),
    *("</tool_response>", "<|eot_id|>", "<|python_tag|>", "<|endoftext|>", "<|user|>"),
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    *("<|begin_of_text|>", "<|im_<|im_end|>end|>", "<|observation|>", "[gMASK]<sop>"),
)
BLANK = ("", " ", "\n", "\t \n", "\u00a0", "\u200b")


def odd_text(rng: random.Random, *, forged: bool = True) -> str:
    """A text; one in ten says nothing.

    Args:
        rng: Chooses it.
        forged: Whether it may hold control tokens.
    """
    if rng.random() < 0.1:
        return rng.choice(BLANK)
    pieces = (*PIECES, *FORGED) if forged else PIECES
    joint = rng.choice(("", " "))
    return joint.join(rng.choices(pieces, k=rng.randint(1, 7)))

"""`Guard`: text from outside cannot forge control tokens.

Every added token counts, special or not: `<|im_end|>` ends a turn, and `</think>` or `<tool_call>`,
merely added to the vocabulary, mislead a model just as well. Only where such a string occurs is
anything done: a private-use character takes its place before rendering (templates trim and
escape text, and private-use characters survive both), and after rendering the string is encoded
in two parts that are no control token. The text stays the same, and so does the structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from retrain.errors import RenderingFailure
from retrain.rendering.template import ChatTokenizer

_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_ANCHORS = ("\n", ".", "0", "x")


class Guard:
    """Hides control tokens in text, and encodes them as text.

    Attributes:
        control_ids: The ids that text from outside must not bring in.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        controls = {
            index: str(token.content)
            for index, token in tokenizer.added_tokens_decoder.items()
            if len(str(token.content)) > 1 and not str(token.content).isspace()
        }
        self.control_ids = frozenset(controls)
        longest_first = sorted(controls.values(), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._anchors = {anchor: self._encode(anchor) for anchor in _ANCHORS}
        self._as_text: dict[str, list[int]] = {}

    def hide(self, value: Any) -> tuple[Any, dict[str, str]]:
        """Put private-use characters in place of control tokens.

        Args:
            value: Strings, in lists and mappings of any depth.

        Returns:
            The value without control tokens, and what each private-use character stands for.
        """
        texts = list(_strings(value))
        found = {token for text in texts for token in self._pattern.findall(text)}
        if not found:
            return value, {}
        used = set().union(*texts)
        free = (chr(code) for span in _PRIVATE for code in span if chr(code) not in used)
        stands_for = dict(zip(free, sorted(found), strict=False))
        character = {token: free for free, token in stands_for.items()}
        return self._replaced(value, character), stands_for

    def _replaced(self, value: Any, character: Mapping[str, str]) -> Any:
        if isinstance(value, str):
            return self._pattern.sub(lambda match: character[match.group()], value)
        if isinstance(value, Mapping):
            return {key: self._replaced(item, character) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replaced(item, character) for item in value]
        return value

    def encode(self, text: str, stands_for: Mapping[str, str]) -> list[int]:
        """Encode rendered text, with the hidden tokens as text.

        Args:
            text: Rendered text; its own control tokens count as such.
            stands_for: What `hide` put away.

        Raises:
            RenderingFailure: The tokenizer makes the control token from any part of its text.
        """
        if not stands_for:
            return self._encode(text)
        pieces = re.split(f"([{''.join(stands_for)}])", text)
        ids = self._encode(pieces[0])
        for piece in pieces[1:]:
            token = stands_for.get(piece)
            ids += self._inner(piece) if token is None else self._split(token)
        return ids

    def controls(self, ids: list[int]) -> tuple[int, ...]:
        """The control tokens among `ids`, in order."""
        return tuple(index for index in ids if index in self.control_ids)

    def _split(self, token: str) -> list[int]:
        if token not in self._as_text:
            cuts = ([token[:cut], token[cut:]] for cut in range(1, len(token)))
            for parts in (*cuts, list(token)):
                ids = [index for part in parts for index in self._inner(part)]
                if not self.controls(ids):
                    self._as_text[token] = ids
                    break
            else:
                raise RenderingFailure(f"the tokenizer cannot write {token!r} as plain text")
        return self._as_text[token]

    def _inner(self, text: str) -> list[int]:
        """Encode text that stands inside a longer one.

        SentencePiece-like tokenizers put a space before the first word of what they encode, so it
        is encoded behind a character with which it does not merge, where there is one.
        """
        if not text:
            return []
        for anchor, before in self._anchors.items():
            ids = self._encode(anchor + text)
            if ids[: len(before)] == before:
                return ids[len(before) :]
        return self._encode(text)

    def _encode(self, text: str) -> list[int]:
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        except (UnicodeError, TypeError) as error:
            raise RenderingFailure(
                f"the tokenizer cannot encode this text ({type(error).__name__}: {error}); "
                "text must be valid Unicode, without lone surrogates"
            ) from error


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)

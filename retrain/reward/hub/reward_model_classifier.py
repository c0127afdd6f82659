"""A sequence classifier of transformers, and how conversations become batches of tokens."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrain.reward.hub.reward_model_conversations import Chat
from retrain.reward.hub.reward_model_loading import (
    load_classifier,
    load_tokenizer,
    reward_column,
)
from retrain.reward.hub.reward_model_settings import ModelSettings
from retrain.reward.hub.service_tally import Tally

if TYPE_CHECKING:
    import torch

_NO_LIMIT = 10**6  # a tokenizer that knows no limit says 10**30
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A conversation as tokens.

    Attributes:
        ids: Token ids.
        kinds: Which of two texts each belongs to, for models that want to know; else None.
    """

    ids: list[int]
    kinds: list[int] | None = None


class Classifier:
    """A loaded model with its tokenizer; for one thread at a time.

    Raises:
        ConfigError: It cannot be loaded, has no head that was trained, or no such label.
    """

    def __init__(self, settings: ModelSettings) -> None:
        import torch

        self._torch = torch
        self._settings = settings
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = load_classifier(settings, self._device)
        self._tokenizer = load_tokenizer(settings)
        self._column = reward_column(self._model.config.num_labels, settings)
        known = getattr(self._model.config, "max_position_embeddings", None)
        limits = (settings.max_length, known, self._tokenizer.model_max_length)
        self._longest = min([limit for limit in limits if limit and limit > 0] or [_NO_LIMIT])

    def score(self, chats: Sequence[Chat | None], tally: Tally) -> list[float]:
        """The scores of conversations, in order; NaN for None and where the template raises.

        Args:
            chats: The conversations.
            tally: Where to count.
        """
        encoded = [None if chat is None else self._encoded(chat, tally) for chat in chats]
        scores = [_NAN] * len(chats)
        rows = {place: row for place, row in enumerate(encoded) if row is not None}
        for places in batches(
            {p: len(r.ids) for p, r in rows.items()}, self._settings.batch_tokens
        ):
            found = self._forward([rows[place] for place in places], tally)
            for place, score in zip(places, found, strict=True):
                scores[place] = score
        tally.add("conversations", len(rows))
        if len(rows) < len(chats):
            tally.add("unscored", len(chats) - len(rows))
        return scores

    def free(self) -> None:
        """Give the memory back."""
        del self._model
        gc.collect()
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()

    def _encoded(self, chat: Chat, tally: Tally) -> Encoded | None:
        """A conversation as tokens: by the model's chat template, or else as a pair of texts."""
        from jinja2 import TemplateError

        tokenizer = self._tokenizer
        if tokenizer.chat_template is None:
            before = "\n".join(str(message["content"]) for message in chat[:-1])
            texts: tuple[str, ...] = (before, str(chat[-1]["content"]))
            options: dict[str, Any] = {}
        else:
            try:
                texts = (tokenizer.apply_chat_template(chat, tokenize=False),)
            except (TemplateError, TypeError, ValueError):
                return None
            options = {"add_special_tokens": False}
        whole = tokenizer(*texts, verbose=False, **options)
        if not whole["input_ids"]:
            return None
        if len(whole["input_ids"]) > self._longest:
            tally.add("truncated")
            options |= {"truncation": True, "max_length": self._longest}
            whole = tokenizer(*texts, **options)
        kinds = "token_type_ids" in tokenizer.model_input_names
        return Encoded(whole["input_ids"], whole["token_type_ids"] if kinds else None)

    def _forward(self, rows: Sequence[Encoded], tally: Tally) -> list[float]:
        try:
            with self._torch.inference_mode():
                logits_BL = self._logits(rows)
        except self._torch.cuda.OutOfMemoryError:
            if len(rows) == 1:
                raise
            tally.add("too_large")
            self._torch.cuda.empty_cache()
            middle = len(rows) // 2
            return [*self._forward(rows[:middle], tally), *self._forward(rows[middle:], tally)]
        used = sum(len(row.ids) for row in rows)
        tally.add("batches")
        tally.add("tokens", used)
        tally.add("padding", len(rows) * max(len(row.ids) for row in rows) - used)
        scores_B = logits_BL[:, self._column].float()
        return [*map(float, scores_B.sigmoid() if self._settings.sigmoid else scores_B)]

    def _logits(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Logits [B, labels] of rows that are padded on the right, whatever the tokenizer does."""
        config = self._model.config
        text_config = config.get_text_config()
        own = text_config.pad_token_id
        pad = _unused_id(rows, text_config.vocab_size) if own is None else own
        if pad is None and len(rows) > 1:
            return self._torch.cat([self._logits([row]) for row in rows])
        inputs = {
            "input_ids": self._padded([row.ids for row in rows], pad or 0),
            "attention_mask": self._padded([[1] * len(row.ids) for row in rows], 0),
        }
        if rows[0].kinds is not None:
            inputs["token_type_ids"] = self._padded([row.kinds or [] for row in rows], 0)
        try:
            config.pad_token_id = text_config.pad_token_id = pad
            logits: torch.Tensor = self._model(**inputs).logits
        finally:
            config.pad_token_id = text_config.pad_token_id = own
        return logits

    def _padded(self, rows: Sequence[list[int]], value: int) -> torch.Tensor:
        width = max(map(len, rows))
        padded = [row + [value] * (width - len(row)) for row in rows]
        return self._torch.tensor(padded, device=self._device)


def batches(lengths: dict[int, int], most: int) -> Iterator[list[int]]:
    """Part rows into batches of similar length.

    Args:
        lengths: Each row's length, by its place.
        most: Most tokens of a batch, padding included; a longer row is a batch of its own.
    """
    batch: list[int] = []
    for place in sorted(lengths, key=lambda place: -lengths[place]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _unused_id(rows: Sequence[Encoded], vocabulary: int) -> int | None:
    """An id to pad with that no row holds; None where they hold all.

    A decoder takes the score at the last token that is no padding, and finds it by the id: one that
    a text may hold would move that place.
    """
    used = {token for row in rows for token in row.ids}
    return next((token for token in range(vocabulary) if token not in used), None)

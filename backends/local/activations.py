"""What a forward pass keeps for the backward pass, counted tensor by tensor.

The counts are those of transformers' decoders with RMSNorm, gated MLP and SDPA attention, after the
method of Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022),
section 4. Symbols as in `backends.local.memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.local.outline import ModelOutline

if TYPE_CHECKING:
    from backends.local.memory import Workload

_INSIDE = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
"""What configurations call the size inside the MLP; where none is given (GPT-2, Bloom), 4 x H."""


def activation_bytes(outline: ModelOutline, work: Workload) -> int:
    """Bytes kept over one micro-batch: R x T x L x the bytes of a token in a layer.

    With gradient checkpointing each layer keeps its input, and one layer at a time the rest.
    Autocast keeps a copy of every matrix that it casts.
    """
    tokens, layers = work.rows * work.row_tokens, int(outline.config.num_hidden_layers)
    hidden = int(outline.config.hidden_size)
    width = work.weight_type.itemsize
    layer = tokens * layer_bytes(outline, work)
    casts = 0
    if work.autocast is not None and width > work.autocast.itemsize and work.bits is None:
        casts = work.autocast.itemsize * (outline.parameters - embedding_numbers(outline.config))
    if work.checkpointing:
        return layers * tokens * hidden * width + layer + casts
    return layers * layer + casts


def layer_bytes(outline: ModelOutline, work: Workload) -> int:
    """Bytes that one layer keeps of one token.

    Two norms keep a float32 input and a result each: H x (4 + m) x 2. Inputs of matrices: H x w,
    twice, but under autocast each of five matrices has a cast copy. Normalised queries and keys:
    (Q + K) x (4 + w). Attention: queries, keys and values at the queries' size, and its result,
    4 x Q x w, with a mask of T x w. The MLP: 4 x I x w. Models without
    attention (Mamba) are counted without it.
    """
    config: Any = outline.config
    w = work.computed.itemsize
    cast = work.autocast is not None and work.autocast is not work.weight_type
    heads = int(getattr(config, "num_attention_heads", None) or 0)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // max(1, heads))
    queries = heads * size
    keys = size * int(getattr(config, "num_key_value_heads", None) or heads)
    norms = 2 * config.hidden_size * (4 + work.weight_type.itemsize)
    inputs = config.hidden_size * w * (5 if cast else 2)
    normed = (queries + keys) * (4 + w) if outline.qk_norm else 0
    return int(norms + inputs + normed + (4 * queries + 4 * _inside(config) + work.row_tokens) * w)


def embedding_numbers(config: Any) -> int:
    """Numbers of the embedding, and of the head where it is not the same."""
    tied = getattr(config, "tie_word_embeddings", False)
    return int(config.vocab_size * config.hidden_size * (1 if tied else 2))


def _inside(config: Any) -> int:
    """I: the MLP's inner size; of experts, those that a token goes through."""
    given = (getattr(config, name, None) for name in _INSIDE)
    inside = next(filter(None, given), 4 * config.hidden_size)
    active = getattr(config, "num_experts_per_tok", None)
    expert = getattr(config, "moe_intermediate_size", None) or inside
    shared = getattr(config, "shared_expert_intermediate_size", None) or 0
    return int(active * expert + shared if active else inside)

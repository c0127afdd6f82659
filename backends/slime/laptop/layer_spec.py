"""A layer for Megatron-LM without TransformerEngine that takes packed sequences.

slime packs the sequences of a micro-batch behind one another. Megatron's own attention refuses
them ("Please use TEDotProductAttention instead"); its projections, norms and MLP do not care.
Given to slime as `--spec backends.slime.laptop.layer_spec packed_layer_spec`; importable where
Megatron-LM is.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_config import TransformerConfig

from backends.slime.laptop.attention import packed_attention


class PackedAttention(MegatronModule):
    """Megatron's core attention over packed sequences, in place of TransformerEngine's."""

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
    ) -> None:
        """Take what Megatron gives every core attention."""
        super().__init__(config=config)
        self._scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels)
        self._dropout = config.attention_dropout if attention_dropout is None else attention_dropout

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        attn_mask_type: Any = None,
        attention_bias: torch.Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> torch.Tensor:
        """Attend within each sequence.

        Args:
            query: [tokens, heads, head size].
            key: [tokens, groups, head size].
            value: As key.
            attention_mask: Not looked at; attention is causal.
            attn_mask_type: Not looked at.
            attention_bias: Must be None.
            packed_seq_params: Where the sequences start.

        Returns:
            [tokens, heads * head size].
        """
        assert packed_seq_params is not None and attention_bias is None
        return packed_attention(
            query,
            key,
            value,
            packed_seq_params.cu_seqlens_q,
            scale=self._scale,
            dropout=self._dropout if self.training else 0.0,
        )


def packed_layer_spec(args: Any, config: TransformerConfig, vp_stage: int | None) -> ModuleSpec:
    """Megatron's local layer with `PackedAttention` in it.

    Args:
        args: slime's arguments.
        config: The model's.
        vp_stage: Not looked at: the layers are all alike.
    """
    spec = get_gpt_layer_local_spec(
        num_experts=args.num_experts,
        moe_grouped_gemm=args.moe_grouped_gemm,
        qk_layernorm=args.qk_layernorm,
        normalization=args.normalization,
    )
    spec.submodules.self_attention.submodules.core_attention = PackedAttention
    return spec

"""Which models compute exactly what the lean decoder computes: none that is only nearly known."""

from __future__ import annotations

from typing import Any

from torch import nn

_ALIKE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Model types whose decoders differ only in what `transformers_lean` reads off their modules."""
_TABLED = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary embeddings that depend on the position alone, not on the longest row of the batch."""
_WRAPPERS = frozenset({"accelerate", "trl"})
_LEAVES = ("torch.nn.modules.container", "torch.nn.modules.activation", "transformers.activations")
_PROJECTIONS = frozenset(
    {
        "embed_tokens",
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "lm_head",
    }
)
"""Modules that are called as they are where they are no plain linear layers."""


def known_decoder(model: nn.Module) -> Any:
    """The causal language model of transformers that stands in a model, known through and through.

    Args:
        model: A causal language model, or one that peft has wrapped.

    Returns:
        It; None where a module is of another class, hooked or patched, the attention is not sdpa,
        or the rotary embedding depends on more than the position.
    """
    inner: Any = _without_adapters(model)
    return inner if inner is not None and _is_known(inner) else None


def only_wrapped(model: nn.Module) -> bool:
    """Whether a whole model computes what its class does, wrapped by a trainer at most.

    accelerate's wrapper enters autocast, which the engine enters itself; TRL's adds a way to the
    loss. Whether they leave the logits as they are is what `same_logits` asks.
    """
    if is_untouched(model):
        return True
    function = getattr(vars(model).get("forward"), "__func__", None)
    home: str = getattr(function, "__globals__", {}).get("__name__", "")  # not a copied __module__
    return not _is_hooked(model) and home.partition(".")[0] in _WRAPPERS


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def is_untouched(module: nn.Module) -> bool:
    """Whether a module runs what its class does: nothing is hooked or patched in."""
    return not _is_hooked(module) and "forward" not in vars(module)


def _without_adapters(model: Any) -> Any:
    """The model itself, or the one that LoRA adapters have been put into; None for others."""
    adapters = getattr(model, "active_peft_config", None)
    if adapters is None:
        return model
    return model.get_base_model() if adapters.peft_type == "LORA" and only_wrapped(model) else None


def _is_known(model: Any) -> bool:
    config = model.config
    kind = config.model_type
    home = f"transformers.models.{kind}.modeling_{kind}"
    return (
        kind in _ALIKE
        and config._attn_implementation == "sdpa"
        and getattr(config, "rope_parameters", {}).get("rope_type") in _TABLED
        and type(model).__name__.endswith("ForCausalLM")
        and type(model).__module__ == home
        and only_wrapped(model)
        and _holds_plain(model, home)
    )


def _holds_plain(module: nn.Module, home: str) -> bool:
    """Whether what is in a module is transformers' own; projections may be anything."""
    return all(
        name in _PROJECTIONS
        or (
            type(child).__module__ in (home, *_LEAVES)
            and is_untouched(child)
            and _holds_plain(child, home)
        )
        for name, child in module.named_children()
    )

"""A random Qwen-VL of some 67,000 parameters, as a model folder, and pictures for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from real_tokenizers import chat_template

VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
PATCH = 16

_QWEN2_VISION = {"embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2}
_QWEN2_5_VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "out_hidden_size": 32,
    "window_size": 4 * PATCH,
    "fullatt_block_indexes": [1],
}
_QWEN3_VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "out_hidden_size": 32,
    "deepstack_visual_indexes": [0],
    "num_position_embeddings": 64,
}
VISIONS = {"qwen2_vl": _QWEN2_VISION, "qwen2_5_vl": _QWEN2_5_VISION, "qwen3_vl": _QWEN3_VISION}
"""By model type, what its vision tower has of its own."""


def make_tiny_vlm(folder: Path, kind: str = "qwen3_vl") -> Path:
    """Write the model, its tokenizer, its image processor and Qwen3-VL's chat template."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText, GenerationConfig
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    tokenizer = bytes_tokenizer()
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(
        AutoConfig.for_model(kind, **_sizes(tokenizer, VISIONS[kind]))
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=2,
        size={"shortest_edge": 4 * PATCH**2, "longest_edge": 64 * PATCH**2},
    ).save_pretrained(folder)
    return folder


def bytes_tokenizer() -> Any:
    """A tokenizer whose text tokens are bytes, with Qwen3-VL's control tokens and template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(text, normalized=False) for text in (*CHAT, *VISION)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=chat_template("qwen3_vl"),
    )


def _sizes(tokenizer: Any, vision: dict[str, Any]) -> dict[str, Any]:
    start, end, image, video = (tokenizer.convert_tokens_to_ids(text) for text in VISION)
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    return {
        "text_config": {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "intermediate_size": 48,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": 1024,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": None,
            "rope_parameters": rope,
        },
        "vision_config": {
            "depth": 2,
            "num_heads": 2,
            "patch_size": PATCH,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            **vision,
        },
        "tie_word_embeddings": True,
        "image_token_id": image,
        "video_token_id": video,
        "vision_start_token_id": start,
        "vision_end_token_id": end,
    }


def save_pictures(folder: Path) -> tuple[str, str]:
    """A noisy picture that must be resized, and a red one that is large enough as it is."""
    from PIL import Image

    noisy, red = folder / "noisy.png", folder / "red.png"
    Image.effect_noise((90, 61), 80).save(noisy)
    Image.new("RGB", (96, 64), (255, 0, 0)).save(red)
    return str(noisy), str(red)

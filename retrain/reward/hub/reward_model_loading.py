"""Loads a reward model of transformers, and says what is wrong with one that is none."""

from __future__ import annotations

from typing import Any

from retrain.errors import ConfigError
from retrain.reward.hub.reward_model_settings import ModelSettings


def load_classifier(settings: ModelSettings, device: str) -> Any:
    """Load the model onto a device, for inference.

    Raises:
        ConfigError: It cannot be loaded, or has no head that was trained.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification

    from retrain.engine.transformers_loading import quiet_transformers

    on_cpu = device.startswith("cpu") and settings.dtype == "auto"
    load: Any = AutoModelForSequenceClassification.from_pretrained
    try:
        with quiet_transformers():
            model, report = load(
                settings.name,
                revision=settings.revision,
                dtype=torch.float32 if on_cpu else settings.dtype,
                trust_remote_code=settings.trust_remote_code,
                output_loading_info=True,
            )
        model = model.to(device).eval()
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"reward_model.model: {settings.name!r} cannot be loaded on {device} ({reason}); it "
            "must be a Hugging Face folder or name of a sequence classifier"
        ) from error
    if missing := sorted(report["missing_keys"]):
        raise ConfigError(
            f"reward_model.model: {settings.name!r} has no weights for {', '.join(missing[:3])}; "
            "it is no reward model, and its scores would be random"
        )
    return model


def load_tokenizer(settings: ModelSettings) -> Any:
    """Load the model's tokenizer.

    Raises:
        ConfigError: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    load: Any = AutoTokenizer.from_pretrained
    try:
        tokenizer = load(
            settings.name,
            revision=settings.revision,
            trust_remote_code=settings.trust_remote_code,
        )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"reward_model.model: {settings.name!r} has no tokenizer that can be loaded ({reason})"
        ) from error
    tokenizer.truncation_side = settings.truncation
    return tokenizer


def reward_column(labels: int, settings: ModelSettings) -> int:
    """Which of a model's labels is the reward.

    Raises:
        ConfigError: It has several, and none of them was chosen.
    """
    if settings.index is None and labels == 1:
        return 0
    if settings.index is None or not 0 <= settings.index < labels:
        raise ConfigError(
            f"reward_model.index: {settings.index}, but {settings.name!r} has {labels} labels; "
            f"give the number of the one that is the reward, 0 to {labels - 1}"
        )
    return settings.index

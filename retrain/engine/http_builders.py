"""Makes the engines over HTTP from their options in the configuration; each argument is one."""

from __future__ import annotations

from retrain.engine.factory import EngineContext
from retrain.engine.http_answer import ServedModel
from retrain.engine.http_client import HttpSettings
from retrain.engine.openai_engine import OpenAIEngine
from retrain.engine.sglang_engine import SGLangEngine
from retrain.engine.vllm_engine import VLLMEngine


def build_sglang(
    context: EngineContext,
    *,
    urls: str | list[str],
    router: bool = False,
    api_key_env: str | None = None,
    timeout: float = 600.0,
    retries: int = 3,
) -> SGLangEngine:
    """Engine over SGLang servers; see `SGLangEngine` and `HttpSettings`."""
    settings = HttpSettings(api_key_env=api_key_env, timeout=timeout, retries=retries)
    return SGLangEngine(
        urls, router=router, settings=settings, model=_served(context), vision=context.vision
    )


def build_openai(
    context: EngineContext,
    *,
    urls: str | list[str],
    served_model: str | None = None,
    api_key_env: str | None = None,
    timeout: float = 600.0,
    retries: int = 3,
) -> OpenAIEngine:
    """Engine over OpenAI-compatible servers; see `OpenAIEngine` and `HttpSettings`."""
    settings = HttpSettings(api_key_env=api_key_env, timeout=timeout, retries=retries)
    return OpenAIEngine(urls, served_model=served_model, settings=settings, model=_served(context))


def build_vllm(
    context: EngineContext,
    *,
    urls: str | list[str],
    served_model: str | None = None,
    api_key_env: str | None = None,
    timeout: float = 600.0,
    retries: int = 3,
) -> VLLMEngine:
    """Engine over vLLM servers; see `VLLMEngine` and `HttpSettings`."""
    settings = HttpSettings(api_key_env=api_key_env, timeout=timeout, retries=retries)
    return VLLMEngine(urls, served_model=served_model, settings=settings, model=_served(context))


def _served(context: EngineContext) -> ServedModel:
    return ServedModel(context.model.name_or_path, context.vocab_size, context.encode)

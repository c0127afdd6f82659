"""Messages to tokens by the model's own template, and sampled tokens to actions, exactly."""

from retrain.rendering.base import Renderer
from retrain.rendering.renderer import DeltaRenderer, load_renderer

__all__ = ["DeltaRenderer", "Renderer", "load_renderer"]

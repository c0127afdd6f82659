"""Images as models read them: placeholders in the stream, and the numbers behind them."""

from retrain.vision.base import NoVision, Vision, VisionProcessor, collapse, expand
from retrain.vision.reading import ImageLimits

__all__ = ["ImageLimits", "NoVision", "Vision", "VisionProcessor", "collapse", "expand"]

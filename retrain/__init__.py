"""retrain: write an environment once, train it on TRL or slime by changing one key."""

__version__ = "0.1.0"

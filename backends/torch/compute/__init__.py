"""Passes over a model: micro-batches, packing, log-probabilities, the learning rate."""

"""What is saved and loaded: checkpoints, Hugging Face weights, adapters."""

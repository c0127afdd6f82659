"""`backend: torch`: a small training loop of our own over torch and transformers."""

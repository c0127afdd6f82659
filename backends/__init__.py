"""Training backends; each knows one framework."""

"""A run with a configuration and a run folder: its plan, its parts, its end."""

"""The TRL backend."""

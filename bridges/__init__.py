"""The four bridges between the core and any training framework."""

"""What backends that train in this process share: Hugging Face files, memory, resume."""

"""Several processes that train together: who they are, and what each is told to do."""

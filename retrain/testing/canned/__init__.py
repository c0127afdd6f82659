"""Episodes that the suites play: what is said in them, and what they become."""

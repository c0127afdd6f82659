"""Which tasks are played: prompt sources and the data buffer."""

"""Settings of HTTP engines that fail fast."""

from retrain.engine.http_client import HttpSettings

QUICK = HttpSettings(timeout=20, connect_timeout=2, retries=3, backoff=0.02, probe_interval=0.05)

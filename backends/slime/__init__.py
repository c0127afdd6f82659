"""The slime backend: Megatron, SGLang and Ray."""

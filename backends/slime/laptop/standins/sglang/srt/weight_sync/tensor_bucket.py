"""SGLang's buckets of tensors (sglang/srt/weight_sync/tensor_bucket.py)."""


class FlattenedTensorBucket:
    """Tensors in one: for weight updates that do not go by way of the disk."""

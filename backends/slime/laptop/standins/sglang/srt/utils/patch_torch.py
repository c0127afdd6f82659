"""SGLang's change to how PyTorch pickles GPU tensors (sglang/srt/utils/patch_torch.py)."""


def monkey_patch_torch_reductions() -> None:
    """Nothing to change: there are no GPU tensors."""

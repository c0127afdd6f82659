"""What a run leaves behind and shows while it runs: folder, metrics, samples, curve, progress.

Every submodule is imported by its own name; rich, matplotlib and pydantic load only when the
function that needs them is called or its submodule is imported.
"""

"""slime's whole loop on a computer without a GPU, to debug with.

slime's own `train.py` and Megatron-LM run unmodified. What they find missing on a CPU is put in
its place from outside, one file for each thing:

- `pretend/`: changes to modules when they have been imported (`hooks.py` has the list),
- `standins/`: packages that are imported where the real one is not installed,
- `layer_spec.py`: attention over packed sequences without TransformerEngine.

`site/` brings the hooks into every Python process of the run, Ray's workers included.
docs/slime_laptop.md says what such a run proves and what it does not.
"""

"""What modules are changed to, one file for each change.

A module that `hooks.py` names is executed in the context `around(module)` of its file.
"""

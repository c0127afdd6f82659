"""Environments that were written for other libraries, unchanged: one file for each kind.

Nothing here imports such a library before an episode needs it. What each adapter supports stands in
docs/environments.md.
"""

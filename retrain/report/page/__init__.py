"""`report.html`: one self-contained page about a run, or about several side by side.

It holds no script, loads nothing, and forbids both by a content security policy. Every text that a
model, a tool or a user wrote goes through `markup.escaped`.
"""

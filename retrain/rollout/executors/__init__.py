"""Where environments run: in this process, in worker processes, or in Ray actors over a cluster.

The engine and the episode loop stay where they are. What crosses a process is an import path and
JSON: the environment's type and settings, tasks, seeds, actions and replies.
"""

"""The reward hub: rewards by name, over a response, its label and its metadata.

`cases` says what a rule sees and gives, `catalogue` which names there are, and `episodes` makes a
reward over episodes of each, so that `reward_setup.rollout_reward_configs: {math: {}}` finds it.
What may hang or grow runs in the processes of `pool`. Nothing here is imported until it is asked
for.
"""

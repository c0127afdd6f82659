"""Faults between episodes and samples, and in what an episode is worth."""

from __future__ import annotations

from planted_fault import PlantedFault

_FORMAT = "bridges/data_format.py"
_LOOP = "bridges/episode.py"
_STREAM = "bridges/stream.py"
_ADVANTAGES = "retrain/reward/advantages.py"
_BRIDGES = (
    "tests/bridges/test_data_format.py",
    "tests/bridges/test_episode_loop.py",
    "tests/bridges/test_episode_end.py",
    "tests/bridges/test_cut_turns.py",
    "tests/bridges/test_rollout_bridge.py",
    "tests/bridges/test_token_exactness.py",
)
_REWARDS = ("tests/reward/test_advantages.py", "tests/bridges/test_rollout_bridge.py")

BRIDGES = (
    PlantedFault(
        "shifts the mask by one token",
        _FORMAT,
        "        mask += [0] * len(turn.env_ids)\n",
        "        mask += [0] * len(turn.env_ids)\n        mask = [0, *mask][: len(ids)]\n",
        _BRIDGES,
    ),
    PlantedFault(
        "trains on what the environment said",
        _FORMAT,
        "mask += [0] * len(turn.env_ids)",
        "mask += [trained] * len(turn.env_ids)",
        _BRIDGES,
    ),
    PlantedFault(
        "shifts the logprobs by one token",
        _FORMAT,
        "[*turn.output_logprobs, *[0.0] * len(turn.env_ids)]",
        "[*turn.output_logprobs[1:], *[0.0] * (len(turn.env_ids) + 1)]",
        _BRIDGES,
    ),
    PlantedFault(
        "trains on failed episodes",
        _FORMAT,
        "trained = int(trajectory.valid)",
        "trained = 1",
        _BRIDGES,
    ),
    PlantedFault(
        "encodes sampled text again",
        _LOOP,
        "                output_ids=tuple(generation.output_ids),",
        "                output_ids=tuple(\n"
        "                    self.renderer._tokenizer.encode(\n"
        "                        self.renderer.decode(generation.output_ids),\n"
        "                        add_special_tokens=False,\n"
        "                    )\n"
        "                )[: len(generation.output_ids)]\n"
        "                or tuple(generation.output_ids),",
        _BRIDGES,
    ),
    PlantedFault(
        "ends a stream on a reply",
        _STREAM,
        "        turns[-1:] = [replace(turn, env_ids=()) for turn in turns[-1:]]\n",
        "",
        _BRIDGES,
    ),
    PlantedFault(
        "trains again on what an earlier segment trained",
        _STREAM,
        "            self._first_turn = len(self.turns)\n",
        "            self._first_turn = 0\n",
        ("tests/bridges/test_rewritten_history.py", "tests/bridges/test_segment_exactness.py"),
    ),
    PlantedFault(
        "goes on with the old stream where the environment rewrote what was said",
        "bridges/history.py",
        "            if _whole(messages)[: len(known)] != known:",
        "            if False:",
        ("tests/bridges/test_rewritten_history.py", "tests/bridges/test_segment_exactness.py"),
    ),
    PlantedFault(
        "allows one token more than the response may have",
        "bridges/limits.py",
        "room = self.max_response_len - response_len",
        "room = self.max_response_len - response_len + 1",
        _BRIDGES,
    ),
    PlantedFault(
        "starts the members of a group from different states",
        "retrain/seeds.py",
        'derive_seed("environment", self.run, self.split, self.task_id, self.visit)',
        'derive_seed("environment", self.run, self.split, self.task_id, self.visit, '
        "self.sample_index)",
        (*_BRIDGES, "tests/core/test_seeds.py"),
    ),
    PlantedFault(
        "samples every turn with one seed",
        "retrain/seeds.py",
        'return derive_seed("turn", *episode, turn)',
        'return derive_seed("turn", *episode)',
        (*_BRIDGES, "tests/core/test_seeds.py"),
    ),
    PlantedFault(
        "forgets what an episode as a whole earns",
        _LOOP,
        "reward=turns[-1].reward + earned",
        "reward=turns[-1].reward",
        _BRIDGES,
    ),
    PlantedFault(
        "counts a failed episode as a reward of 0",
        _ADVANTAGES,
        "valid = [float(reward) for reward in rewards if reward is not None]",
        "valid = [float(reward or 0.0) for reward in rewards]",
        _REWARDS,
    ),
    PlantedFault(
        "divides by the population's standard deviation",
        _ADVANTAGES,
        "math.sqrt(len(rewards) - 1)",
        "math.sqrt(len(rewards))",
        _REWARDS,
    ),
    PlantedFault(
        "counts an episode's own reward in its leave-one-out baseline",
        _ADVANTAGES,
        "deviation * n / (n - 1)",
        "deviation",
        _REWARDS,
    ),
    PlantedFault(
        "scores an episode's rewards without their weights",
        "retrain/reward/combination.py",
        "return sum(weights[name] * value",
        "return sum(value",
        ("tests/reward/test_reward_calculator.py",),
    ),
    PlantedFault(
        "lets an invalid episode vote in its group",
        "bridges/reward.py",
        "t.trained_reward if t.valid else None for",
        "t.trained_reward for",
        (*_REWARDS, "tests/reward/test_reward_calculator.py"),
    ),
    PlantedFault(
        "trains on raw rewards where they are to be normalised",
        "bridges/reward.py",
        "t.trained_reward if t.valid",
        "t.reward if t.valid",
        ("tests/reward/test_reward_bridge.py",),
    ),
)

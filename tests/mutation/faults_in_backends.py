"""Faults between samples and the frameworks' losses."""

from __future__ import annotations

from planted_fault import PlantedFault

_TRAINER = "backends/trl/trainer.py"
_TRL = (
    "tests/trl/test_feed.py",
    "tests/trl/test_loss_inputs.py",
    "tests/parity/test_backends_agree.py",
    "tests/trl/test_off_policy.py",
)
_SLIME = (
    "tests/slime_backend/test_plugin_rewards.py",
    "tests/slime_backend/test_plugin_generate.py",
    "tests/slime_backend/test_plugin_rollout.py",
    "tests/slime_backend/test_rule_samples.py",
    "tests/parity/test_backends_agree.py",
)

BACKENDS = (
    PlantedFault(
        "gives TRL a mask of ones",
        "backends/trl/feed.py",
        '"env_mask": [row.loss_mask for row in rows]',
        '"env_mask": [[1] * len(row.loss_mask) for row in rows]',
        _TRL,
    ),
    PlantedFault(
        "lets TRL subtract the mean of rows that stand together",
        _TRAINER,
        '        output["advantages"] = advantages\n',
        "",
        _TRL,
    ),
    PlantedFault(
        "lets TRL take the ratio as 1 in place of the engine's logprobs",
        _TRAINER,
        '        output["old_per_token_logps"] = engine_BT\n',
        "",
        _TRL,
    ),
    PlantedFault(
        "divides TRL's loss by the mean number of tokens of its steps",
        _TRAINER,
        "            self._set_token_divisors(self._buffered_inputs)\n",
        "            pass\n",
        _TRL,
    ),
    PlantedFault(
        "does not cap the truncated importance weight",
        _TRAINER,
        ".exp().clamp(max=TIS_CLIP)",
        ".exp()",
        _TRL,
    ),
    PlantedFault(
        "gives TRL's checkpoints no position in the data",
        _TRAINER,
        "        complete_checkpoint(self, self._data_state())\n",
        "",
        ("tests/trl/test_resume.py",),
    ),
    PlantedFault(
        "leaves the weight decay to the framework",
        "backends/trl/arguments.py",
        '        "weight_decay": hyper.weight_decay,\n',
        "",
        ("tests/trl/test_planning.py", "tests/slime_backend/test_plan_slime.py"),
    ),
    PlantedFault(
        "lets every segment of an episode vote on slime",
        "backends/slime/votes.py",
        'return ("position", position) if sample.rollout_id is None else',
        'return ("position", position) if True else',
        _SLIME,
    ),
    PlantedFault(
        "groups slime's samples by their position",
        "backends/slime/votes.py",
        "groups.setdefault(sample.group_index, {})",
        "groups.setdefault(position // args.n_samples_per_prompt, {})",
        _SLIME,
    ),
    PlantedFault(
        "lets an aborted episode vote on slime",
        "backends/slime/votes.py",
        '_VALID = ("completed", "truncated")',
        '_VALID = ("completed", "truncated", "aborted", "failed")',
        _SLIME,
    ),
    PlantedFault(
        "keeps the tokens of a sample's former life on slime",
        "backends/slime/samples.py",
        "    reset(target)\n    siblings",
        "    siblings",
        _SLIME,
    ),
    PlantedFault(
        "does not tell slime which samples are removed",
        "backends/slime/samples.py",
        "    target.remove_sample = sample.remove_sample\n",
        "",
        _SLIME,
    ),
    PlantedFault(
        "leaves slime the mask that it makes of a response",
        "backends/slime/samples.py",
        "    target.loss_mask = list(sample.loss_mask)\n",
        "    target.loss_mask = [1] * sample.response_length\n",
        _SLIME,
    ),
    PlantedFault(
        "gives slime raw rewards in place of advantages",
        "backends/slime/rewards.py",
        "        0.0 if sample.remove_sample else found[sample.group_index, "
        "vote_of(sample, position)]\n",
        "        0.0 if sample.remove_sample else reward_of(args, sample) or 0.0\n",
        _SLIME,
    ),
)

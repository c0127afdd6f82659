"""Faults between messages and tokens."""

from __future__ import annotations

from planted_fault import PlantedFault

_RENDERER = "retrain/rendering/renderer.py"
_DELTA = "retrain/rendering/delta.py"
_GUARD = "retrain/rendering/guard.py"
_TAIL = "retrain/rendering/tail.py"
_TESTS = (
    "tests/rendering/test_reconciliation.py",
    "tests/rendering/test_exactness.py",
    "tests/rendering/test_guard.py",
    "tests/rendering/test_self_check.py",
    "tests/rendering/test_parsing.py",
)

RENDERING = (
    PlantedFault(
        "writes the end of a turn twice, sampled and from the template",
        _RENDERER,
        "return last_id == terminator or plain",
        "return False",
        _TESTS,
    ),
    PlantedFault(
        "leaves out the end of a turn that was cut",
        _RENDERER,
        "return last_id == terminator or plain",
        "return True",
        _TESTS,
    ),
    PlantedFault(
        "takes a sampled role marker for the one that is needed",
        _RENDERER,
        "plain = last_id in self._closers and terminator not in self._openers",
        "plain = last_id in self._stops",
        _TESTS,
    ),
    PlantedFault(
        "does not look whether the template shows a reply",
        _DELTA,
        "        _witness(dicts, text)\n",
        "",
        _TESTS,
    ),
    PlantedFault(
        "lets replies forge control tokens",
        _GUARD,
        "        if not found:\n            return value, {}",
        "        if True:\n            return value, {}",
        _TESTS,
    ),
    PlantedFault(
        "guards special tokens alone, not merely added ones",
        _GUARD,
        "if len(str(token.content)) > 1 and not",
        "if token.special and len(str(token.content)) > 1 and not",
        _TESTS,
    ),
    PlantedFault(
        "encodes a forged token as the token itself",
        _GUARD,
        "else self._split(token)",
        "else self._encode(token)",
        _TESTS,
    ),
    PlantedFault(
        "puts the sentinel into the content of a turn that calls tools",
        _TAIL,
        "    if not calls:\n        return Message(",
        "    if True:\n        return Message(",
        _TESTS,
    ),
    PlantedFault(
        "forgets the ids of the calls that a reply answers",
        _TAIL,
        '{"value": SENTINEL}, calls[-1].id)',
        '{"value": SENTINEL}, None)',
        _TESTS,
    ),
    PlantedFault(
        "does not open the next turn behind a reply",
        _TAIL,
        "tools, generation_prompt=generation_prompt)",
        "tools, generation_prompt=False)",
        _TESTS,
    ),
    PlantedFault(
        "keeps the first of several parallel calls",
        "retrain/rendering/parsing/hermes.py",
        "            calls.append(call)\n",
        "            calls[:] = calls[:1] or [call]\n",
        _TESTS,
    ),
    PlantedFault(
        "tells templates today's date in place of the configured one",
        "retrain/rendering/template.py",
        "        self.date = date or datetime.date.today()",
        "        self.date = datetime.date.today()",
        _TESTS,
    ),
)

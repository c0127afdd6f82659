import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from retrain.config.docs import render
from retrain.config.vocabulary import ROWS, SYNONYMS, Vocabulary, spellings

ROOT = Path(__file__).parents[2]


def fields_of(module: str, file: str, class_name: str) -> set[str]:
    """The annotated fields of a class, read without importing its heavy module."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        pytest.skip(f"{module} is not installed")
    tree = ast.parse((Path(found.origin).parent / file).read_text(encoding="utf-8"))
    (node,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
    targets = (n.target for n in node.body if isinstance(n, ast.AnnAssign))
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_every_key_has_a_row_and_every_synonym_one_key() -> None:
    assert set(ROWS) == set(Vocabulary.model_fields)
    assert not set(SYNONYMS) & set(ROWS)
    assert len(SYNONYMS) == sum(len(row.synonyms) for row in ROWS.values())
    assert all(row.meaning for row in ROWS.values())


def test_every_trl_word_is_an_option_of_trl() -> None:
    known = fields_of("trl", "trainer/grpo_config.py", "GRPOConfig")
    known |= fields_of("transformers", "training_args.py", "TrainingArguments")
    assert {row.trl.option for row in ROWS.values() if row.trl.option} <= known


def test_a_key_is_spelled_in_the_chosen_frameworks_word_too() -> None:
    assert spellings("kl_coef", "trl") == ("kl_coef", "beta", "trl_beta")
    assert spellings("num_iterations", "trl") == ("num_iterations",)
    assert spellings("num_iterations", "slime") == ("num_iterations", "slime_num_rollout")


def test_the_documentation_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == render(), "run: python -m retrain.config.docs"


def test_the_documentation_names_every_key() -> None:
    page = render()
    assert all(f"`{key}`" in page for key in (*ROWS, *SYNONYMS, "concurrency", "verifier_penalty"))


def test_loading_a_configuration_imports_nothing_heavy() -> None:
    code = (
        "import sys; from retrain.config import load_config; import retrain.registry;"
        "heavy = {'torch', 'numpy', 'transformers', 'trl', 'datasets', 'ray'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

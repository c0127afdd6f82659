from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plan_configs import COLOCATED, SFT, make_config
from slime_text import OWN, options_text, write_slime

from backends.slime.backend import SlimeBackend
from backends.slime.flags import known_flags
from backends.slime.flags_contract import missing_names
from backends.slime.flags_source import declared_flags
from backends.slime.installation import Installation
from retrain.errors import MissingDependency


def write(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with everything, as far as one can see without importing it."""
    write(
        tmp_path,
        "slime/__init__.py",
        "megatron/training/arguments.py",
        "sglang/__init__.py",
        "ray/__init__.py",
    )
    return write_slime(tmp_path)


def faults(root: Path) -> list[str]:
    return [str(problem) for problem in Installation.of([str(root)]).problems()]


def test_a_whole_installation_has_no_problem(whole: Path) -> None:
    assert faults(whole) == []


def test_an_empty_machine_is_told_each_command_once(tmp_path: Path) -> None:
    slime, megatron, sglang, ray = faults(tmp_path)
    assert slime.startswith("slime is not installed; git clone") and "624b824a" in slime
    assert "Megatron-LM is not importable" in megatron and "1dcf0da" in megatron
    assert "pip install sglang==0.5.15.post1" in sglang
    assert "pip install 'retrain[slime]'" in ray


def test_the_other_package_named_slime_is_told_apart(whole: Path) -> None:
    (whole / "slime/utils/arguments.py").unlink()
    (fault,) = faults(whole)
    assert "mixed-effects" in fault and "pip uninstall -y slime" in fault


def test_megatron_core_alone_is_told_apart(whole: Path) -> None:
    (whole / "megatron/training/arguments.py").unlink()
    write(whole, "megatron/core/__init__.py")
    (fault,) = faults(whole)
    assert "has no megatron.training" in fault and "megatron-core" in fault


@pytest.mark.parametrize("name", ["sglang", "ray"])
def test_one_missing_package_is_one_problem(whole: Path, name: str) -> None:
    (whole / name / "__init__.py").unlink()
    (whole / name).rmdir()
    (fault,) = faults(whole)
    assert fault.startswith(f"{name} is not installed; pip install")


def test_another_version_of_slime_is_a_warning(whole: Path) -> None:
    write_slime(whole, [*OWN[1:], "--brand-new"])
    (problem,) = Installation.of([str(whole)]).problems()
    assert not problem.stops
    assert "is not the tested 0.3.1 (624b824a)" in problem.message
    assert f"does not declare {OWN[0]}, and it also declares --brand-new" in problem.message


@pytest.mark.parametrize("gone", ["Sample.append_response_tokens", "post.headers"])
def test_a_slime_without_what_the_plugin_uses_is_refused(whole: Path, gone: str) -> None:
    write_slime(whole, without=gone)
    (problem,) = Installation.of([str(whole)]).problems()
    assert problem.stops
    assert "is not the tested 0.3.1 (624b824a): it lacks what retrain uses" in problem.message
    assert gone in problem.message


def test_a_run_that_needs_an_option_which_slime_lacks_is_refused(tmp_path: Path) -> None:
    """slime ignores what it does not declare, so the run would train by slime's own advantages."""
    hook = "--custom-reward-post-process-path"
    root = write_slime(tmp_path / "older", [option for option in OWN if option != hook])
    config = make_config(tmp_path, COLOCATED, cluster={"slime": str(root)})
    (error,) = SlimeBackend().plan(config).errors
    assert f"does not declare {hook}, which this run needs" in error.message


def test_options_are_read_from_the_source_without_running_it() -> None:
    source = "raise SystemExit\n" + options_text(["--one-thing", "short"])
    source += "reset_arg(parser, '--other', choices=['a', 'b'], nargs='+')\nprint('--none')\n"
    source += "parser.add_argument('--on', action='store_true')\n"
    source += "parser.add_argument('--both', action=argparse.BooleanOptionalAction)\n"
    found = declared_flags(source)
    assert found.keys() == {"one_thing", "other", "on", "both"}
    assert found["one_thing"].kind == "int" and found["on"].switch
    assert (found["other"].choices, found["other"].nargs) == (("a", "b"), "+")
    assert found["both"].negation == "--no-both"


@pytest.mark.slime
@pytest.mark.skipif("RETRAIN_SLIME" not in os.environ, reason="set RETRAIN_SLIME to a checkout")
def test_the_tested_slime_declares_what_the_table_holds() -> None:
    source = Path(os.environ["RETRAIN_SLIME"], "slime", "utils", "arguments.py").read_text()
    table = {name: flag for name, flag in known_flags().items() if flag.owner == "slime"}
    declared = declared_flags(source)
    assert declared.keys() <= known_flags().keys()
    for name in declared.keys() & table.keys():
        flag = declared[name]
        if flag.choices:
            assert table[name].choices == flag.choices
        assert table[name].switch == flag.switch
    assert {name for name in table if not name.startswith("no_offload")} <= declared.keys()


@pytest.mark.slime
@pytest.mark.skipif("RETRAIN_SLIME" not in os.environ, reason="set RETRAIN_SLIME to a checkout")
def test_the_tested_slime_holds_what_the_plugin_uses() -> None:
    assert missing_names(Path(os.environ["RETRAIN_SLIME"])) == []


def test_a_cluster_brings_its_own(tmp_path: Path) -> None:
    nothing = Installation.of([str(tmp_path)])
    plain = make_config(tmp_path, SFT)
    assert len(nothing.blocking(plain, {})) == 4
    (ray,) = nothing.blocking(plain, {"RAY_API_SERVER_ADDRESS": "http://head:8265"})
    assert "ray" in str(ray)
    named = make_config(tmp_path, SFT, cluster={"address": "http://head:8265"})
    assert nothing.blocking(named, {}) == [ray]
    checkouts = make_config(tmp_path, SFT, cluster={"slime": "/s", "megatron": "/m"})
    assert len(nothing.blocking(checkouts, {})) == 2


def test_the_laptop_names_its_own_checkouts(tmp_path: Path) -> None:
    laptop = make_config(tmp_path, {**SFT, "slime_laptop": True})
    assert Installation.of([str(tmp_path)]).blocking(laptop, {}) == []


def test_a_missing_slime_stops_training_and_not_planning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    nothing = Installation.of([str(tmp_path)])
    monkeypatch.setattr(Installation, "of", lambda: nothing)
    backend = SlimeBackend()
    plan = backend.plan(make_config(tmp_path, SFT))
    assert not plan.errors
    assert {str(problem) for problem in nothing.problems()} <= set(map(str, backend.check()))
    with pytest.raises(MissingDependency, match="slime is not installed"):
        backend.train(plan)
    assert not (tmp_path / "run").exists()


def test_planning_imports_no_framework(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('torch', 'trl', 'transformers', 'ray', 'slime')))\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from plan_configs import SFT, make_config\n"
        "from backends.slime.backend import SlimeBackend\n"
        f"print(SlimeBackend().plan(make_config(Path({str(tmp_path)!r}), SFT)).entry)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "train.py\n"), done.stderr

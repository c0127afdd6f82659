import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from retrain import registry as registry_module
from retrain.errors import ConfigError, MissingDependency
from retrain.registry import Registry


@pytest.fixture
def things() -> Registry[type]:
    found: Registry[type] = Registry("thing", "retrain.things")

    @found.register("calculator")
    class Calculator:
        pass

    found.add_lazy("path", "pathlib:Path")
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def install_entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("plugged", value, "retrain.things")
    found = {"retrain.things": EntryPoints([point])}
    monkeypatch.setattr(
        registry_module, "entry_points", lambda *, group: found.get(group, EntryPoints())
    )


def test_a_registered_name_gives_the_object(things: Registry[type]) -> None:
    assert things.get("calculator").__name__ == "Calculator"
    assert "calculator" in things


def test_a_lazy_row_is_imported_only_when_asked_for(things: Registry[type], folder: Path) -> None:
    (folder / "heavy_row.py").write_text("class Heavy: pass\n")
    things.add_lazy("heavy", "heavy_row:Heavy")
    sys.path.insert(0, str(folder))
    assert "heavy" in things.names()
    assert "heavy_row" not in sys.modules
    assert things.get("heavy").__name__ == "Heavy"


def test_a_missing_extra_names_the_command_to_type(things: Registry[type], folder: Path) -> None:
    (folder / "needs_extra.py").write_text("import package_that_nobody_has\n")
    things.add_lazy("extra", "needs_extra:Thing", "pip install 'retrain[extra]'")
    sys.path.insert(0, str(folder))
    with pytest.raises(MissingDependency, match=r"pip install 'retrain\[extra\]'") as raised:
        things.get("extra")
    assert "package_that_nobody_has" in str(raised.value)


def test_a_file_in_the_working_directory_can_be_named(things: Registry[type], folder: Path) -> None:
    (folder / "my_world.py").write_text("class Outer:\n    class World: pass\n")
    assert things.get("my_world:Outer.World").__name__ == "World"


def test_a_dotted_path_is_refused_with_the_colon_written(things: Registry[type]) -> None:
    with pytest.raises(ConfigError, match=r"my_pkg\.world:World"):
        things.get("my_pkg.world.World")


def test_an_unknown_name_is_answered_with_the_nearest(things: Registry[type]) -> None:
    with pytest.raises(ConfigError, match="unknown thing 'calculater': did you mean 'calculator'"):
        things.get("calculater")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module_x:World", "no module named 'no_such_module_x'"),
        ("pathlib:Pth", "pathlib has no 'Pth'; did you mean 'Path'"),
        ("pathlib:", "write package.module:Attribute"),
        (":Path", "write package.module:Attribute"),
        ("a b:c", "write package.module:Attribute"),
        ("./world.py:World", "write package.module:Attribute"),
    ],
)
def test_a_wrong_import_path_says_what_is_wrong(
    things: Registry[type], path: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        things.get(path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nraise RuntimeError('broken')\n", r"broken_world.py, line 2: RuntimeError: broken"),
        ("def f(:\n", r"broken_world.py, line 1: SyntaxError"),
    ],
)
def test_a_module_that_raises_on_import_is_named_with_its_line(
    things: Registry[type], folder: Path, source: str, said: str
) -> None:
    (folder / "broken_world.py").write_text(source)
    with pytest.raises(ConfigError, match=said):
        things.get("broken_world:World")


def test_an_import_path_that_lacks_a_package_is_a_missing_dependency(
    things: Registry[type], folder: Path
) -> None:
    (folder / "lacking_world.py").write_text("import package_that_nobody_has\n")
    with pytest.raises(MissingDependency, match="lacking_world imports 'package_that_nobody_has'"):
        things.get("lacking_world:World")


def test_an_installed_entry_point_is_found_and_listed(
    things: Registry[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_entry_point(monkeypatch, "pathlib:PurePath")
    assert things.get("plugged").__name__ == "PurePath"
    assert things.names() == ("calculator", "path", "plugged")


def test_a_name_is_taken_once(things: Registry[type]) -> None:
    with pytest.raises(ConfigError, match="already taken"):
        things.register("calculator")(dict)
    with pytest.raises(ConfigError, match="already taken"):
        things.register("path")(dict)
    with pytest.raises(ConfigError, match="already taken"):
        things.add_lazy("calculator", "pathlib:Path")


def test_a_lazy_module_may_register_itself(things: Registry[type]) -> None:
    assert things.register("path")(Path) is Path
    assert things.get("path") is Path

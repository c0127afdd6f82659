"""What cannot be done with images is said before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from looking import Looking
from seeing import items_of, see_config

from backends.images import image_problems, what_shows_images
from retrain.compose import load_backend, make_tasks
from retrain.config import RunConfig
from retrain.errors import DataError
from retrain.rollout.sources import jsonl_tasks
from retrain.rollout.sources_rows import RowKeys


class Blind(Looking):
    """Shows nothing of its own."""

    shows_images = False  # type: ignore[assignment]


def problems(backend: str, config: RunConfig) -> dict[str, str]:
    plan = load_backend(backend).plan(config)
    return {problem.key: problem.message for problem in plan.errors}


@pytest.fixture
def text_model(vlm: Path, tmp_path: Path) -> Path:
    """The same tokenizer, with a model that reads text."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "text"
    text = AutoConfig.from_pretrained(vlm).get_text_config()
    sizes = {k: getattr(text, k) for k in ("vocab_size", "hidden_size", "eos_token_id")}
    small = AutoConfig.for_model("qwen3", num_hidden_layers=1, intermediate_size=8, **sizes)
    AutoModelForCausalLM.from_config(small).save_pretrained(folder)
    AutoTokenizer.from_pretrained(vlm).save_pretrained(folder)
    return folder


def test_a_vlm_with_images_plans_on_trl(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    config = see_config(vlm, tmp_path / "run", items_of(*pictures))
    assert problems("trl", config) == {}
    assert what_shows_images(config) == "task 'two' of prompt_source shows images"


@pytest.mark.parametrize("backend", ["trl", "slime"])
def test_images_with_a_model_that_reads_text_are_refused(
    backend: str, text_model: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    config = see_config(
        text_model,
        tmp_path / "run",
        items_of(*pictures),
        algorithm={"backend": backend},
        environment={"type": "test_image_plans:Blind"},
    )
    said = problems(backend, config)["model.name_or_path"]
    assert "task 'two' of prompt_source shows images" in said
    assert "reads text only (model type 'qwen3')" in said


def test_an_environment_that_declares_images_is_refused_with_a_text_model(
    text_model: Path, tmp_path: Path
) -> None:
    config = see_config(text_model, tmp_path / "run", ["Hello."])
    assert "environment.type: 'looking:Looking' shows images" in str(problems("trl", config))
    blind = see_config(
        text_model, tmp_path / "run", ["Hello."], environment={"type": "test_image_plans:Blind"}
    )
    assert problems("trl", blind) == {}


def test_what_trl_cannot_do_with_images_is_refused(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    items = items_of(*pictures)
    vllm = see_config(vlm, tmp_path / "run", items, hyper={"trl_use_vllm": True})
    said = problems("trl", vllm)["algorithm.hyperparameters.trl_use_vllm"]
    assert "retrain gives vLLM no images" in said
    config = see_config(vlm, tmp_path / "run", items)
    sft = config.model_copy(
        update={"algorithm": config.algorithm.model_copy(update={"name": "sft"})}
    )
    assert "demonstrations of text only" in str(image_problems(sft))


@pytest.mark.parametrize("shown", ["task 'two' of prompt_source", "environment.type"])
def test_the_torch_backend_refuses_images(
    shown: str, vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    items = items_of(*pictures) if "task" in shown else ["a", "b"]
    config = see_config(vlm, tmp_path / "run", items, algorithm={"backend": "torch"})
    said = problems("torch", config)
    assert said.keys() == {"algorithm.backend"}
    assert said["algorithm.backend"].startswith(shown)
    assert "the torch backend trains on text only; use trl or slime" in said["algorithm.backend"]


def test_what_slime_cannot_do_with_images_is_refused(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    def said(**hyper: Any) -> str:
        config = see_config(
            vlm,
            tmp_path / "run",
            items_of(*pictures),
            algorithm={"backend": "slime"},
            hyper=hyper,
        )
        from backends.slime.planning_problems import config_problems

        options = config.algorithm.hyperparameters.prefixed("slime")
        return str([p.key for p in config_problems(config, options, remote_code=False)])

    assert "slime_spec" in said()
    assert "slime_spec" not in said(slime_spec=["slime_plugins.models.qwen3_5_vl", "provider"])


def test_a_row_with_a_wrong_image_is_one_error_that_names_row_and_path(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    for value, words in (
        ("gone.png", rf"rows\.jsonl:2: 'images': {tmp_path}/gone\.png: no such image file"),
        ([3], r"rows\.jsonl:2: 'images': image 0: .*not int"),
    ):
        lines = [{"prompt": "a"}, {"prompt": "b", "images": value}]
        rows.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(DataError, match=words):
            jsonl_tasks(rows, RowKeys())
    (tmp_path / "text.png").write_text("no picture")
    config = see_config(vlm, tmp_path / "run", [{"id": "t", "images": "text.png", "prompt": "?"}])
    config._base_dir = tmp_path
    with pytest.raises(DataError, match=rf"task 't': {tmp_path}/text\.png: is no image"):
        make_tasks(config)
    url = [{"id": "t", "images": "https://a/b.png", "prompt": "?"}]
    with pytest.raises(DataError, match="allow_urls"):
        make_tasks(see_config(vlm, tmp_path / "run", url))


def test_the_images_of_rows_become_the_tasks(pictures: tuple[str, str], tmp_path: Path) -> None:
    noisy, red = pictures
    rows = tmp_path / "rows.jsonl"
    (tmp_path / "near.png").write_bytes(Path(red).read_bytes())
    lines = [{"prompt": "a", "seen": [noisy, "near.png"], "x": 1}, {"prompt": "b"}]
    rows.write_text("\n".join(map(json.dumps, lines)))
    first, second = jsonl_tasks(rows, RowKeys(images="seen"))
    assert first.images == (noisy, str(tmp_path / "near.png"))
    assert first.metadata == {"x": 1}
    assert second.images == ()


@pytest.mark.slow
def test_the_image_columns_of_datasets_become_the_tasks(
    vlm: Path, pictures: tuple[str, str], tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features(
        {"problem": datasets.Value("string"), "images": datasets.List(datasets.Image())}
    )
    rows = {"problem": ["<image>?", "And <image>?"], "images": [[pictures[0]], [pictures[1]]]}
    datasets.Dataset.from_dict(rows, features=kinds).save_to_disk(tmp_path / "data")
    source = {
        "type": "dataset",
        "source_config": {"path": str(tmp_path / "data"), "prompt_key": "problem"},
    }
    config = see_config(vlm, tmp_path / "run", ["unused"], prompt_source=source)
    tasks = make_tasks(config)
    assert [task.prompt for task in tasks] == rows["problem"]
    for task, path in zip(tasks, pictures, strict=True):
        assert Path(task.images[0]).read_bytes() == Path(path).read_bytes()
    assert what_shows_images(config) == "task 'train-0' of prompt_source shows images"

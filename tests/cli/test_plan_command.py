from __future__ import annotations

import json
import re

import pytest
from cli_workspace import Workspace

pytestmark = pytest.mark.slow


def sections(text: str) -> dict[str, str]:
    """The body of each section, by title."""
    parts = text.split("\n-- ")[1:]
    return {title: body for title, _, body in (part.partition(" --\n") for part in parts)}


def test_a_plan_shows_what_will_happen_and_writes_nothing(workspace: Workspace) -> None:
    result = workspace.run("plan")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    shown = sections(result.stdout)
    assert "n_samples_per_prompt: 2" in shown["configuration, resolved"]
    arguments = shown["what trl receives: trl.GRPOTrainer"]
    assert (
        dict(line.split(None, 1) for line in arguments.strip().splitlines()).items()
        >= {
            "num_generations": "2",
            "max_completion_length": "24",
            "loss_type": '"dapo"',
        }.items()
    )
    assert "4 = rollout_batch_size 2 x n_samples_per_prompt 2" in shown["sizes"]
    assert "1 = 4 rollouts / 4 per optimizer step" in shown["sizes"]
    assert shown["collecting"] == "groups in play  2 = rollout_batch_size, all waited for\n"
    assert "stop tokens: 2 '<|im_end|>'" in shown["chat template"]
    assert shown["what cannot be honoured, and warnings"].strip() == "none"
    assert not workspace.output.exists()


def test_the_episode_of_a_plan_marks_exactly_what_the_model_would_write(
    workspace: Workspace,
) -> None:
    result = workspace.run("plan", "--set", "algorithm.hyperparameters.max_response_len=100")
    title = "one episode (scripted turns, not a model's); trained tokens are between ⟦ and ⟧"
    _, _, episode = sections(result.stdout)[title].partition("\n")
    assert episode == (
        "<|im_start|>system\nTools: calculator<|im_end|>\n"
        "<|im_start|>user\n75+99 then *6<|im_end|>\n"
        "<|im_start|>assistant\n"
        '⟦<tool_call>\n{"name": "calculator", "arguments": {"expression": "1"}}\n'
        "</tool_call><|im_end|>⟧\n"
        "<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n⟦1044<|im_end|>⟧\n"
    )


def test_a_plan_as_json_is_one_document(workspace: Workspace) -> None:
    workspace.hyper["trl_hub_token"] = "hf_abcdefghijklmnopqrstuvwxyz"
    result = workspace.run("plan", "--json")
    document = json.loads(result.stdout)
    (stage,) = document["stages"]
    assert document["runnable"] is True
    assert stage["entry"] == "trl.GRPOTrainer"
    assert stage["arguments"]["num_generations"] == 2
    assert stage["sizes"]["rollouts_per_iteration"] == 4
    assert stage["collecting"] == {"groups in play": "2 = rollout_batch_size, all waited for"}
    assert stage["template"]["stop_tokens"] == [{"id": 2, "text": "<|im_end|>"}]
    (sample,) = stage["preview"]["samples"]
    assert len(sample["loss_mask"]) == len(sample["response_ids"])
    assert "hf_abc" not in result.stdout


def in_two_stages(workspace: Workspace) -> None:
    said = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    (workspace.folder / "shown.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    shown = {"source_config": {"path": "shown.jsonl"}}
    warm = {"name": "warm", "algorithm": {"name": "sft"}, "prompt_source": shown}
    workspace.config["stages"] = [warm, {"name": "rl"}]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("algorithm.hyperparameters.trl_use_vllm=true", "stage warm: algorithm.hyperparameters."),
        ("environment.type=nowhere", "stages warm, rl: unknown environment 'nowhere'"),
    ],
)
def test_a_mistake_is_named_once_with_its_stages(
    workspace: Workspace, value: str, words: str
) -> None:
    in_two_stages(workspace)
    result = workspace.run("plan", "--set", value)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {words}") and len(result.stderr.splitlines()) == 1


def test_every_stage_is_planned(workspace: Workspace) -> None:
    in_two_stages(workspace)
    result = workspace.run("plan")
    assert (result.exit_code, result.stderr) == (0, "")
    first, _, second = result.stdout.partition("== tiny, stage rl ==")
    assert "== tiny, stage warm ==" in first and "trl.SFTTrainer" in first
    assert "(recorded turns)" in first and "⟦2<|im_end|>⟧" in first
    assert "trl.GRPOTrainer" in second


def test_a_plan_that_cannot_run_is_still_shown(workspace: Workspace) -> None:
    (workspace.own_model() / "model.safetensors").unlink()
    result = workspace.run("plan", "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["runnable"] is False
    (problem,) = document["stages"][0]["problems"]
    assert problem["key"] == "model.name_or_path" and problem["severity"] == "error"
    assert "holds no weights" in result.stderr


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ("RaisesInReset", "reset: RuntimeError: the world is closed"),
        ("RaisesWhenMade", "environment constructor: LookupError: no key for the world"),
    ],
)
def test_an_environment_that_cannot_begin_stops_the_plan(
    workspace: Workspace, environment: str, reason: str
) -> None:
    workspace.config["environment"]["type"] = f"cli_environments:{environment}"
    result = workspace.run("plan")
    assert result.exit_code == 2
    said = re.escape(f"error: environment: the episode of task 'sum' fails: {reason}")
    assert re.fullmatch(rf"{said} \(\S+cli_environments\.py:\d+\)\n", result.stderr)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ("RaisesInStep", "step: KeyError: 'no such move'"),
        ("HangingTool", "tool wait: no answer within 0.2 s"),
    ],
)
def test_what_a_scripted_turn_breaks_is_a_warning(
    workspace: Workspace, environment: str, reason: str
) -> None:
    workspace.config["environment"]["type"] = f"cli_environments:{environment}"
    result = workspace.run("plan", "--set", "algorithm.hyperparameters.max_response_len=200")
    assert (result.exit_code, result.stderr) == (0, "")
    warnings = sections(result.stdout)["what cannot be honoured, and warnings"]
    assert warnings.startswith("warning: ") and reason in warnings
    assert "0 trained of" in result.stdout


def test_a_template_that_hides_the_tools_is_refused(workspace: Workspace) -> None:
    template = workspace.own_model() / "chat_template.jinja"
    text = template.read_text()
    template.write_text(text.replace("{%- if tools %}", "{%- if false %}"))
    result = workspace.run("plan")
    assert result.exit_code == 2
    assert "tools in the prompt: REFUSED" in result.stdout
    assert "error: rendering: the episode of task 'sum' fails" in result.stderr
    assert "leaves out the tools" in result.stderr


def test_a_template_that_rewrites_history_is_refused_where_it_matters(
    workspace: Workspace,
) -> None:
    template = workspace.own_model() / "chat_template.jinja"
    text = template.read_text()
    template.write_text(
        text.replace("message.content + '\\n</tool_response>'", "'gone\\n</tool_response>'")
    )
    result = workspace.run("plan", "--set", "algorithm.hyperparameters.max_response_len=200")
    assert result.exit_code == 2
    assert "reply of tool, with tools: REFUSED" in result.stdout
    assert "reply of user: exact" in result.stdout
    assert result.stderr.startswith("error: rendering: ")


def test_a_tokenizer_without_pad_token_pads_with_its_eos(workspace: Workspace) -> None:
    path = workspace.own_model() / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "pad_token": None}))
    assert workspace.run("plan").exit_code == 0


def test_memory_is_estimated_part_by_part(workspace: Workspace) -> None:
    result = workspace.run("plan")
    section = result.stdout.split("-- memory, estimated")[1].split("\n\n")[0]
    assert "weights" in section and "kv_slots" in section and "peak" in section
    memory = json.loads(workspace.run("plan", "--json").stdout)["stages"][0]["memory"]
    assert memory["peak"] >= memory["weights"] > 1_000_000

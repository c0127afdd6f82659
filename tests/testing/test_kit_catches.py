"""Each planted fault fails the test of the kit that is named after it, in plain words."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import wrong_backends
import wrong_engines
import wrong_environments
import wrong_renderers
import wrong_rewards
from suite_runs import HERE, ROOT, run_file

from retrain import testing

WRONG = (wrong_backends, wrong_engines, wrong_environments, wrong_renderers, wrong_rewards)
DOCUMENT = ROOT / "docs" / "testing.md"
SUITES = ("BackendSuite", "EngineSuite", "EnvironmentSuite", "RendererSuite", "RewardSuite")

CAUGHT = {
    "wrong_backends": {
        "TestMaskOffByOne": ("test_every_sampled_token_is_trained", "one token to the right"),
        "TestRetokenising": ("test_sampled_tokens_are_not_encoded_again", "another token at"),
        "TestPositionalGroups": ("test_groups_are_not_found_by_position", "another advantage"),
        "TestFailedCountAsZero": ("test_groups_are_not_found_by_position", "another advantage"),
        "TestObservationsTrained": ("test_only_sampled_tokens_are_trained", "to be not trained"),
        "TestObservationsHaveLogprobs": ("test_observations_have_no_logprob", "came:     -1.25"),
        "TestAdvantagesShifted": ("test_advantages_stand_on_their_rows", "another advantage"),
        "TestLastTokenLost": ("test_the_last_token_is_kept", "1 tokens earlier"),
        "TestFirstTokenDoubled": ("test_tokens_are_those_of_the_engine", "at position 1"),
        "TestLogprobsShifted": ("test_logprobs_stand_on_their_tokens", "another logprob"),
        "TestRewardsNormalised": ("test_rewards_are_raw", "another reward"),
        "TestFailedAreTrained": ("test_failed_episodes_train_nothing", "does not count"),
        "TestFailedAreDropped": ("test_every_sample_has_exactly_one_row", "is not there once"),
        "TestRowsDoubled": ("test_every_sample_has_exactly_one_row", "came:     2"),
        "TestLaterSegmentsLost": ("test_every_segment_is_trained_once", "segment 1 is not there"),
        "TestSegmentsVote": ("test_every_segment_is_trained_once", "another advantage"),
        "TestSegmentsNotRefused": ("test_every_segment_is_trained_once", "are not refused"),
        "TestMeanOverSequences": ("test_loss_weights_follow_the_aggregation", "'token'"),
    },
    "wrong_engines": {
        "TestStopTokenDropped": ("test_the_stop_token_is_kept", "does not end with it"),
        "TestLengthAlways": ("test_the_stop_token_is_kept", "another finish reason"),
        "TestLogprobsShifted": ("test_logprobs_belong_to_their_tokens", "when it is written alone"),
        "TestLogprobsUntempered": ("test_logprobs_are_tempered_and_not_truncated", "0.7"),
        "TestLogprobsTruncated": ("test_logprobs_are_tempered_and_not_truncated", "top_p 0.5"),
        "TestMaxTokensIgnored": ("test_max_tokens_bounds_a_turn", "came:     12 tokens"),
        "TestSeedIgnored": ("test_a_seed_gives_the_same_turn_again", "says that it is seeded"),
        "TestOneSeedForAll": ("test_a_seed_gives_the_same_turn_again", "one and the same turn"),
        "TestOneLogprobMissing": ("test_every_token_has_its_logprob", "8 tokens and 7 logprobs"),
        "TestProbabilitiesInPlaceOfLogprobs": ("test_every_token_has_its_logprob", "no logprobs"),
        "TestStaleCache": ("test_a_rewritten_history_is_read_again", "a rewritten stream"),
        "TestSessionsMixed": ("test_sessions_do_not_mix", "side by side"),
        "TestAbortIgnored": ("test_abort_ends_a_turn", "finish reason abort"),
        "TestReleaseOfNothingRaises": ("test_release_forgets_a_session", "KeyError"),
        "TestPromptExtended": ("test_the_prompt_is_left_as_it_was", "changed the list"),
        "TestNothingSaid": ("test_what_it_says_about_a_turn", "weight_version"),
        "TestImagesIgnored": ("test_images_are_not_ignored", "EngineFailure"),
        "TestNoAbort": ("test_it_is_an_engine", "generate, abort and release"),
    },
    "wrong_environments": {
        "TestLeaksState": ("test_episodes_leave_nothing_behind", "after other episodes"),
        "TestSharesItsTurn": ("test_episodes_side_by_side_do_not_mix", "beside another episode"),
        "TestMutatesItsMessages": ("test_what_was_said_stays", "what reset returned was changed"),
        "TestBlocksTheLoop": ("test_the_event_loop_stays_free", "in Blocks.step"),
        "TestNonDeterministic": ("test_one_seed_gives_one_episode", "under one seed"),
        "TestReturnsADictionary": ("test_every_answer_can_be_read", "expected a StepResult"),
        "TestRewardIsText": ("test_every_answer_can_be_read", "expected a number"),
        "TestNoPrompt": ("test_every_answer_can_be_read", "the first prompt cannot be empty"),
        "TestRaisesOnNonsense": ("test_every_answer_can_be_read", "IndexError"),
        "TestToolMessageForParseError": (
            "test_a_parse_error_is_answered_by_a_user_message",
            "not answered by a user message",
        ),
        "TestOneResultOnly": ("test_tool_messages_answer_calls", "3 tool calls has 1 tool"),
        "TestSaysItsOwnAnswer": ("test_the_first_prompt_asks_something", "of the model's own"),
        "TestToolsByNameOnly": ("test_tools_are_schemas", "another form"),
        "TestChangesTheTask": ("test_the_task_is_left_as_it_was", "task.metadata was changed"),
        "TestChangesTheAction": ("test_actions_are_left_as_they_were", "arguments was changed"),
        "TestRewritesUnannounced": ("test_rewriting_is_announced", "rewrites_history is False"),
        "TestCannotBeClosedEarly": ("test_it_can_be_closed_at_any_time", "close: AttributeError"),
        "TestRepliesWithAnAssistant": ("test_an_episode_plays_through", "role 'assistant'"),
    },
    "wrong_renderers": {
        "TestRendersItAllAgain": ("test_a_reply_holds_only_what_is_new", "renders again"),
        "TestUnguarded": ("test_control_tokens_cannot_be_forged", "became control tokens"),
        "TestDropsForgedTokens": ("test_control_tokens_cannot_be_forged", "was dropped"),
        "TestDoublesTheTerminator": ("test_a_turn_ends_once", "a limit cut"),
        "TestLosesALineBreak": ("test_a_stream_is_what_the_template_renders", "parts from"),
        "TestResultsReversed": ("test_tool_results_stand_in_order", "out of order"),
        "TestOneResultOnly": ("test_tool_results_stand_in_order", "lacks a message"),
        "TestParseRaises": ("test_almost_a_tool_call_is_data", "JSONDecodeError"),
        "TestKeepsTheStopToken": ("test_an_answer_is_read_back", "<|im_end|>"),
        "TestFirstCallOnly": ("test_tool_calls_are_read_back", "read in another way"),
        "TestAsciiOnly": ("test_text_comes_through", "another text"),
        "TestCountsReplies": ("test_a_reply_does_not_depend_on_earlier_ones", "other tokens"),
        "TestTakesAnyRole": ("test_replies_of_the_model_s_own_are_refused", "role 'assistant'"),
        "TestHidesTheTools": ("test_the_first_prompt_shows_the_tools", "does not name the tool"),
        "TestLosesTheSystemPrompt": ("test_the_first_prompt_holds_its_messages", "pirate"),
        "TestRaisesOnBlank": ("test_blank_replies_are_rendered_or_refused", "IndexError"),
        "TestNoPadToken": ("test_stop_and_pad_tokens_are_known", "padding None"),
    },
    "wrong_rewards": {
        "TestNotANumber": ("test_every_episode_gets_a_finite_number", "returned nan"),
        "TestReturnsText": ("test_every_episode_gets_a_finite_number", "expected a number"),
        "TestRaisesOnNonsense": ("test_every_episode_gets_a_finite_number", "'empty'"),
        "TestDependsOnOrder": ("test_order_does_not_count", "in another order"),
        "TestRemembers": ("test_the_same_episode_gets_the_same_reward", "the second time"),
        "TestNormalisesOverTheBatch": ("test_neighbours_do_not_count", "alone"),
        "TestRandom": ("test_the_same_episode_gets_the_same_reward", "the second time"),
        "TestWrongWayRound": ("test_a_right_answer_earns_more", "does not earn more"),
        "TestZeroWithoutALabel": ("test_a_missing_label_is_no_reward", "without a label"),
        "TestBlocksTheLoop": ("test_the_event_loop_stays_free", "blocked"),
        "TestOneForAll": ("test_neighbours_do_not_count", "alone"),
    },
}
"""Each fault: the test that names it, and a part of what that test says."""

FAULTS = [
    pytest.param(module, name, id=f"{module}-{name}")
    for module, classes in CAUGHT.items()
    for name in classes
]


@pytest.mark.parametrize(("module", "name"), FAULTS)
def test_the_fault_fails_the_test_that_names_it(module: str, name: str) -> None:
    test, words = CAUGHT[module][name]
    run = run_file(HERE / f"{module}.py")[name]
    assert test in run.failed
    assert words in run.failed[test]


@pytest.mark.parametrize("module", CAUGHT)
def test_what_is_right_passes_every_test(module: str) -> None:
    run = run_file(HERE / f"{module}.py")["TestRight"]
    assert not run.failed
    assert len(run.passed) >= 7


@pytest.mark.parametrize("module", WRONG, ids=lambda module: module.__name__)
def test_every_planted_fault_is_listed(module: object) -> None:
    planted = {
        name
        for name, value in vars(module).items()
        if name.startswith("Test")
        and inspect.isclass(value)
        and value.__module__ == module.__name__
    }
    assert planted - {"TestRight"} == set(CAUGHT[module.__name__])


@pytest.mark.parametrize("suite", SUITES)
def test_every_test_of_the_kit_has_a_fault_that_it_catches(suite: str) -> None:
    tests = {name for name in dir(getattr(testing, suite)) if name.startswith("test_")}
    module = f"wrong_{suite.removesuffix('Suite').lower()}s"
    failing = {test for run in run_file(HERE / f"{module}.py").values() for test in run.failed}
    assert tests - failing == set()


@pytest.mark.parametrize("suite", SUITES)
def test_the_document_lists_every_test(suite: str) -> None:
    tests = {name for name in dir(getattr(testing, suite)) if name.startswith("test_")}
    text = DOCUMENT.read_text("utf-8")
    section = text[text.index(f"### `{suite}`") :].partition("\n### ")[0]
    assert set(re.findall(r"^\| `(test_\w+)`", section, re.MULTILINE)) == tests


def test_the_code_in_the_document_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    for number, block in enumerate(blocks):
        (tmp_path / f"test_document_{number}.py").write_text(block, "utf-8")
        runs = run_file(tmp_path / f"test_document_{number}.py")
        assert runs and not any(run.failed for run in runs.values())
        assert sum(len(run.passed) for run in runs.values()) >= 6
    assert len(blocks) >= 5

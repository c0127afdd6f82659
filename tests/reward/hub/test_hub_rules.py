from __future__ import annotations

from typing import Any

import pytest

from retrain.errors import RewardFailure
from retrain.reward.hub.cases import Case
from retrain.reward.hub.dapo import dapo
from retrain.reward.hub.f1 import f1
from retrain.reward.hub.gpqa import gpqa
from retrain.reward.hub.ifbench import ifbench
from retrain.reward.hub.length import length
from retrain.reward.hub.shape import format, repetition
from retrain.reward.hub.texts import exact, json_schema, regex


def test_exact_reads_what_follows_the_reasoning() -> None:
    assert exact(Case("<think>no</think> Paris\n", "Paris")) == 1.0
    assert exact(Case("Paris, France", "Paris")) == 0.0
    assert exact(Case("7", 7)) == 1.0
    assert exact(Case("new  YORK", ["LA", "New York"]), ignore_case=True, ignore_space=True) == 1.0


@pytest.mark.parametrize("label", [None, [], {"a": 1}, [None]])
def test_exact_without_a_usable_label_is_a_failure(label: Any) -> None:
    with pytest.raises(RewardFailure, match="exact needs a label"):
        exact(Case("x", label))


def test_regex_searches_or_matches_the_whole_answer() -> None:
    assert regex(Case("it is 5 km"), pattern=r"\d+ km") == 1.0
    assert regex(Case("it is 5 km"), pattern=r"\d+ km", whole=True) == 0.0
    assert regex(Case("a\nb", "A.B"), ignore_case=True, whole=True) == 1.0


def test_a_catastrophic_expression_costs_its_time() -> None:
    with pytest.raises(RewardFailure, match=r"no answer within 0.3 s"):
        regex(Case("a" * 40 + "b"), pattern="(a+)+$", seconds=0.3)


@pytest.mark.parametrize(
    ("pattern", "message"), [("(", "is no regular expression"), (None, "needs `pattern`")]
)
def test_what_is_no_regular_expression_is_a_failure(pattern: str | None, message: str) -> None:
    with pytest.raises(RewardFailure, match=message):
        regex(Case("x"), pattern=pattern)


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ('{"a": 1}', 1.0),
        ('<think>{}</think>{"a": 1}', 1.0),
        ('Here:\n```json\n{"a": 2}\n```\n', 1.0),
        ('{"a": "1"}', 0.0),
        ('{"a": NaN}', 0.0),
        ("not json", 0.0),
        ("[" * 100_000, 0.0),
    ],
)
def test_json_must_be_what_the_schema_allows(response: str, score: float) -> None:
    assert json_schema(Case(response), schema=SCHEMA) == score
    assert json_schema(Case(response, metadata={"schema": SCHEMA})) == score


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "needs a schema"),
        ({"type": "nonsense"}, "not a JSON schema"),
        ({"$ref": "http://localhost:1/other.json"}, "a reference cannot be followed"),
    ],
)
def test_a_schema_that_is_none_or_leads_elsewhere_is_a_failure(schema: Any, message: str) -> None:
    with pytest.raises(RewardFailure, match=message):
        json_schema(Case("{}"), schema=schema)


@pytest.mark.parametrize(
    ("response", "label", "score"),
    [
        ("\N{LEFT DOUBLE QUOTATION MARK}cat\N{RIGHT DOUBLE QUOTATION MARK}", "cat", 1.0),
        ("New York City", "New York", 0.8),
        ("New York City", ["London", "New York City"], 1.0),
        ("yes it is", "yes", 0.0),
        ("the", "The", 1.0),
        ("7", 7, 1.0),
        (None, "cat", 0.0),
    ],
)
def test_f1_counts_words(response: str | None, label: Any, score: float) -> None:
    assert f1(Case(response, label)) == pytest.approx(score)


@pytest.mark.parametrize("label", [None, "", [], [None], {"a": 1}])
def test_f1_without_a_usable_label_is_a_failure(label: Any) -> None:
    with pytest.raises(RewardFailure, match="f1 needs a label"):
        f1(Case("cat", label))


CHOICES = {"choices": ["Paris", "London", "Rome", "Berlin"]}


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The answer is **B**.", "B"),
        ("The answer is: (b)", "B"),
        ("Answer: A\nNo wait. Answer: C", "C"),
        (r"So $\boxed{\text{D}}$", "D"),
        ("A</think>The answer is B", "B"),
        ("I think A. No, B", "B"),
        ("(C) is correct", "C"),
        ("It must be Rome", "C"),
        ("I considered it.\n\nD", "D"),
        ("The answer is a city", None),
        ("Answer: E", None),
    ],
)
def test_gpqa_reads_the_letter_that_is_meant(response: str, letter: str | None) -> None:
    right = {given for given in "ABCD" if gpqa(Case(response, given, CHOICES)) == 1.0}
    assert right == ({letter} if letter else set())


@pytest.mark.parametrize("label", ["C", "(c)", 2, 2.0, "rome", "Rome."])
def test_gpqa_takes_a_letter_a_number_or_a_text_as_the_label(label: Any) -> None:
    assert gpqa(Case("Answer: C", label, CHOICES)) == 1.0
    assert gpqa(Case("Answer: B", label, CHOICES)) == 0.0


@pytest.mark.parametrize("label", [None, True, 7, -1, 1.5, ["A"], "Madrid"])
def test_gpqa_without_a_right_choice_is_a_failure_or_reads_the_text(label: Any) -> None:
    if isinstance(label, str):
        assert gpqa(Case("It is Madrid", label, CHOICES)) == 1.0
        return
    with pytest.raises(RewardFailure, match="gpqa finds no right choice"):
        gpqa(Case("Answer: A", label, CHOICES))


@pytest.mark.parametrize(
    ("response", "label", "right"),
    [
        ("**Answer: 42.**", "42", True),
        ("Answer: $\\frac{1}{2}$", "0.5", True),
        ("Answer: 0", "0.5", False),
        ("Answer: 1\nAnswer: 2" + " " * 400, "2", True),
        ("the answer is 42", "42", False),
    ],
)
def test_dapo_compares_the_last_answer_line(response: str, label: Any, right: bool) -> None:
    score = dapo(Case(response, label))
    assert (score["score"], score["acc"]) == ((1.0, True) if right else (-1.0, False))


def instructed(*rows: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"instruction_id_list": [name for name, _ in rows], "kwargs": [row for _, row in rows]}


KEYWORDS = {
    f"keyword{i}": word for i, word in enumerate(["one", "two", "three", "four", "five"], 1)
}


@pytest.mark.parametrize(
    ("name", "arguments", "follows", "does_not"),
    [
        ("count:word_count_range", {"min_words": 2, "max_words": 3}, "it's so", "one"),
        (
            "count:keywords_multiple",
            KEYWORDS,
            "one " + "two " * 2 + "three " * 3 + "four " * 5 + "five " * 7,
            "one two three four five",
        ),
        ("count:punctuation", {}, "a, b; c: d. e! f?!", "a, b; c: d. e! f?"),
        ("count:numbers", {"N": 2}, "1 and 2.5", "1"),
        ("format:list", {"sep": "..."}, "...a\n...b", "a, b"),
        ("format:no_whitespace", {}, "NoSpace", "a b"),
        (
            "words:palindrome",
            {},
            "level radar civic refer rotor kayak madam tenet stats solos",
            "noon level radar",
        ),
        ("words:repeats", {"small_n": 2}, "a b A", "a a a"),
        ("words:alphabet", {}, "yes zebras are big", "the quick"),
        ("format:newline", {}, "one\ntwo", "one two"),
        ("custom:multiples", {}, "14 21 28 35 42 49", "7 14 21"),
    ],
)
def test_ifbench_checks_an_instruction(
    name: str, arguments: dict[str, Any], follows: str, does_not: str
) -> None:
    metadata = instructed((name, arguments))
    assert ifbench(Case(follows, None, metadata)) == 1.0
    assert ifbench(Case(does_not, None, metadata)) == 0.0


def test_ifbench_gives_all_or_a_share() -> None:
    metadata = instructed(("count:numbers", {"N": 3}), ("format:no_whitespace", {}))
    assert ifbench(Case("1 2 3", None, metadata)) == 0.0
    assert ifbench(Case("1 2 3", None, metadata), give="share") == 0.5


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "needs metadata"),
        (instructed(("count:number", {})), "did you mean 'count:numbers'"),
        (instructed(("count:numbers", {})), "count:numbers needs the argument 'N'"),
        (instructed(("count:numbers", {"N": "x"})), "an argument cannot be used"),
        ({"instruction_id_list": "count:numbers"}, "expected a list"),
    ],
)
def test_ifbench_names_what_is_wrong_with_its_metadata(metadata: Any, message: str) -> None:
    with pytest.raises(RewardFailure, match=message):
        ifbench(Case("x", None, metadata))


@pytest.mark.parametrize(
    ("tokens", "score"), [(0, 0.0), (80, 0.0), (90, -0.5), (100, -1.0), (500, -1.0)]
)
def test_overlong_responses_lose_in_a_line(tokens: int, score: float) -> None:
    assert length(Case("x", tokens=tokens), most=100, cache=20) == pytest.approx(score)


def test_the_cosine_goes_from_its_first_value_to_its_last() -> None:
    def at(tokens: int, response: str) -> float:
        case = Case(response, "2", tokens=tokens)
        return length(case, most=100, shape="cosine", correct="exact")

    assert at(0, "2") == pytest.approx(2.0)
    assert at(50, "2") == pytest.approx(1.5)
    assert at(0, "3") == pytest.approx(-10.0)
    assert at(50, "3") == pytest.approx(-5.0)
    assert at(99, "2") == pytest.approx(1.0, abs=1e-3)
    assert at(100, "2") == -10.0


def test_length_needs_something_to_count() -> None:
    with pytest.raises(RewardFailure, match="unit: characters"):
        length(Case("x"), most=10)
    assert length(Case("x" * 10), most=10, unit="characters") == -1.0
    with pytest.raises(RewardFailure, match="expected 1 to 10"):
        length(Case("x", tokens=1), most=10, cache=11)


def test_repetition_is_the_part_of_runs_that_come_again() -> None:
    assert repetition(Case("a b c d e f")) == 0.0
    assert repetition(Case("a a a a a"), words=2) == pytest.approx(-0.75)
    assert repetition(Case("a b a b"), words=2, most=3.0) == pytest.approx(-1.0)
    assert repetition(Case("short")) == 0.0


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("<think>a</think>\n<answer>b</answer>", 1.0),
        ("x<think>a</think><answer>b</answer>", 0.0),
        ("<think>a</think><answer>b</answer>x", 0.0),
        ("<think>a</think><answer></answer>", 0.0),
        ("<answer>b</answer><think>a</think>", 0.0),
        ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0),
        ("<think>a</think>b", 0.0),
        ("", 0.0),
    ],
)
def test_the_format_is_both_tags_and_nothing_else(response: str, score: float) -> None:
    assert format(Case(response)) == score


def test_the_format_may_be_opened_by_the_prompt_or_have_no_answer_tag() -> None:
    assert format(Case("a</think>b"), answer=None, opened=True) == 1.0
    assert format(Case("a</think>"), answer=None, opened=True) == 0.0
    with pytest.raises(RewardFailure, match="no name of a tag"):
        format(Case("a"), think="<b")

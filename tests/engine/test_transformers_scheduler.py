import pytest

torch = pytest.importorskip("torch")

from tiny_models import make_model, mean_difference  # noqa: E402

from retrain.engine.base import SamplingParams  # noqa: E402
from retrain.engine.transformers_forward import SlotForward  # noqa: E402
from retrain.engine.transformers_requests import Request  # noqa: E402
from retrain.engine.transformers_scheduler import Scheduler  # noqa: E402


class RecordingForward(SlotForward):
    """Remembers the lengths of each forward's rows."""

    def __init__(self, model):
        super().__init__(model, max_slots=4, max_seq_len=256, dtype=None)
        self.lengths = []

    def __call__(self, spans):
        self.lengths.append([len(span.ids) for span in spans])
        return super().__call__(spans)


@pytest.fixture(scope="module")
def model():
    return make_model("llama").eval()


@pytest.fixture
def forward(model):
    with torch.no_grad():
        yield RecordingForward(model)


def make_scheduler(forward, **options):
    defaults = {
        "max_slots": 4,
        "prefill_chunk": 100,
        "eviction_grace": 0.0,
        "weight_version": "0",
    }
    return Scheduler(forward, **{**defaults, **options})


def ask(name, length, tokens=2):
    """A request; the prompts of two names begin with different tokens."""
    prompt = [sum(name.encode()) % 90, *(3 + n % 40 for n in range(1, length))]
    return Request(name, prompt, SamplingParams(tokens), seed=1)


def ask_group(prompt, size, tokens=3):
    """Requests for the same prompt, as a group's are."""
    return [Request(str(n), list(prompt), SamplingParams(tokens), seed=n) for n in range(size)]


def run(scheduler, *requests):
    """Submit requests together and step until all have their result."""
    for request in requests:
        scheduler.submit(request)
    while any(request.result is None for request in requests):
        scheduler.step()
    return [request.result for request in requests]


def test_prompts_of_like_lengths_are_computed_together(forward, model):
    requests = [ask(str(n), length) for n, length in enumerate((20, 24, 22))]
    answers = run(make_scheduler(forward), *requests)
    assert forward.lengths == [[20, 24, 22], [1, 1, 1]]
    for request, answer in zip(requests, answers, strict=True):
        assert mean_difference(model, request.prompt, answer) < 1e-5


def test_prompts_that_would_mostly_be_padding_are_computed_apart(forward):
    run(make_scheduler(forward), ask("long", 60), ask("short", 6), ask("brief", 5))
    assert forward.lengths[0] == [60]
    assert [6, 5] in forward.lengths


def test_a_chunk_bounds_what_is_computed_between_two_decoding_steps(forward):
    scheduler = make_scheduler(forward, prefill_chunk=32)
    running = ask("running", 4, tokens=6)
    scheduler.submit(running)
    scheduler.step()
    run(scheduler, ask("long", 80))
    assert forward.lengths[2:8] == [[32], [1], [32], [1], [16], [1, 1]]


def test_sessions_that_hold_a_slot_are_admitted_before_those_that_would_take_it(forward):
    scheduler = make_scheduler(forward, max_slots=1)
    run(scheduler, ask("holder", 10))
    stranger, holder = ask("stranger", 10), ask("holder", 10)
    run(scheduler, stranger, holder)
    assert (holder.result.meta["cached_tokens"], stranger.result.meta["cached_tokens"]) == (9, 0)


def test_waiting_requests_are_admitted_in_order_of_arrival(forward):
    scheduler = make_scheduler(forward, max_slots=1)
    requests = [ask(name, 5) for name in "abcd"]
    for request in requests:
        scheduler.submit(request)
    finished = []
    while len(finished) < 4:
        scheduler.step()
        finished += scheduler.finished()
    assert finished == requests
    assert scheduler.delay() is None


PROMPT = [5 + n % 31 for n in range(40)]


def test_members_of_a_group_compute_their_prompt_once(forward, model):
    requests = ask_group(PROMPT, 4)
    answers = run(make_scheduler(forward), *requests)
    assert [length for row in forward.lengths for length in row if length > 1] == [40]
    assert [answer.meta["cached_tokens"] for answer in answers] == [0, 39, 39, 39]
    for request, answer in zip(requests, answers, strict=True):
        assert mean_difference(model, request.prompt, answer) < 1e-5


def test_a_group_waits_for_a_prompt_that_is_computed_in_chunks(forward, model):
    requests = ask_group(PROMPT, 3)
    answers = run(make_scheduler(forward, prefill_chunk=16), *requests)
    assert forward.lengths[:3] == [[16], [16], [8]]
    assert mean_difference(model, PROMPT, answers[2]) < 1e-5


def test_another_prompt_takes_over_what_it_shares_and_computes_the_rest(forward, model):
    scheduler = make_scheduler(forward)
    first = Request("first", PROMPT, SamplingParams(2), seed=1)
    other = Request("other", [*PROMPT[:25], *range(60, 80)], SamplingParams(2), seed=2)
    run(scheduler, first)
    forward.lengths.clear()
    (answer,) = run(scheduler, other)
    assert forward.lengths[0] == [20]
    assert answer.meta["cached_tokens"] == 25
    assert mean_difference(model, other.prompt, answer) < 1e-5


def test_members_go_on_alone_when_the_one_they_wait_for_is_gone(forward, model):
    scheduler = make_scheduler(forward, prefill_chunk=16)
    leader, *others = ask_group(PROMPT, 3)
    for request in (leader, *others):
        scheduler.submit(request)
    scheduler.step()
    scheduler.release(leader.session_id)
    while any(request.result is None for request in others):
        scheduler.step()
    for request in others:
        assert mean_difference(model, PROMPT, request.result) < 1e-5


def test_new_weights_leave_nothing_to_take_over(forward, model):
    scheduler = make_scheduler(forward, prefill_chunk=16)
    requests = ask_group(PROMPT, 3)
    for request in requests:
        scheduler.submit(request)
    scheduler.step()
    scheduler.weights_changed("1")
    while any(request.result is None for request in requests):
        scheduler.step()
    for request in requests:
        assert mean_difference(model, PROMPT, request.result) < 1e-5


def test_a_slot_that_moves_keeps_what_it_knows(forward, model):
    scheduler = make_scheduler(forward)
    first, last = ask("first", 20), ask("last", 24, tokens=4)
    run(scheduler, first, last)
    scheduler.release("first")
    stream = [*last.prompt, *last.output_ids, 7, 8]
    following = Request("last", stream, SamplingParams(3), seed=3)
    (answer,) = run(scheduler, following)
    assert answer.meta["cached_tokens"] == len(stream) - 3
    assert mean_difference(model, stream, answer) < 1e-5

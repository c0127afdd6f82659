import pytest

pytest.importorskip("torch")

from retrain.engine.transformers_slots import Copied, Slot, SlotTable, common_prefix


def occupy(table, *sessions):
    """Use a slot for each session in turn, and leave it idle."""
    for session in sessions:
        slot = table.take(session)
        slot.tokens.extend((1, 2, 3))
        table.give_back(slot)


def test_a_session_gets_its_own_slot_again_with_its_tokens():
    table = SlotTable(2, 0.0)
    occupy(table, "a", "b")
    slot = table.take("a")
    assert (slot.index, slot.tokens) == (0, [1, 2, 3])


def test_the_slot_idle_longest_is_taken_first():
    table = SlotTable(2, 0.0)
    occupy(table, "a", "b", "a")
    slot = table.take("c")
    assert (slot.index, slot.tokens) == (1, [])
    assert table.holds("a") and not table.holds("b")


def test_slots_in_use_are_never_taken():
    table = SlotTable(1, 0.0)
    table.take("a")
    assert table.take("b") is None


def test_an_idle_slot_stays_with_its_session_for_the_grace():
    table = SlotTable(1, 60.0)
    occupy(table, "a")
    assert table.take("b") is None
    assert 0.0 < table.delay("b") <= 60.0
    assert table.delay("a") == 0.0
    assert table.take("a") is not None
    assert table.delay("b") is None


def test_the_last_slot_moves_into_the_row_of_a_released_one():
    table = SlotTable(3, 0.0)
    occupy(table, "a", "b", "c")
    moved = table.release("a")
    assert moved == Copied(source=2, target=0, length=3)
    assert [table.take(name).index for name in "cbd"] == [0, 1, 2]


def test_releasing_the_last_slot_moves_nothing():
    table = SlotTable(3, 0.0)
    occupy(table, "a", "b")
    assert table.release("b") is None
    assert table.release("b") is None
    assert table.take("c").index == 1
    assert not table.empty


def test_a_slot_is_lent_until_its_session_loses_it():
    table = SlotTable(1, 0.0)
    slot = table.take("a")
    assert table.lends(slot)
    table.give_back(slot)
    assert table.lends(slot)
    taken = table.take("b")
    assert table.lends(taken) and not table.lends(slot)


def test_forgetting_frees_idle_slots_and_empties_those_in_use():
    table = SlotTable(2, 0.0)
    occupy(table, "a", "b")
    running = table.take("b")
    table.forget()
    assert running.tokens == [] and not table.holds("a")
    table.give_back(running)
    table.release("b")
    assert table.empty


@pytest.mark.parametrize(
    ("held", "asked", "kept"),
    [
        ([1, 2, 3], [1, 2, 3, 4, 5], 3),
        ([1, 2, 3], [1, 9, 3, 4], 1),
        ([1, 2, 3], [9, 2, 3], 0),
        ([1, 2, 3], [1, 2, 3], 2),
        ([1, 2, 3, 4], [1, 2], 1),
        ([], [1], 0),
    ],
)
def test_the_common_prefix_is_kept_but_for_the_last_token(held, asked, kept):
    slot = Slot(0, "a", list(held))
    assert slot.keep_prefix(asked) == kept
    assert slot.tokens == asked[:kept]


@pytest.mark.parametrize("shared", [0, 1, 2, 7, 40, 99])
def test_the_common_prefix_of_two_streams_is_found_whatever_follows(shared):
    asked = list(range(100))
    held = [*asked[:shared], *(-n for n in range(1, 60))]
    assert common_prefix(held, asked) == shared


def test_a_common_prefix_that_is_no_longer_than_asked_for_counts_as_none():
    asked = list(range(10))
    assert common_prefix(asked[:5], asked, least=4) == 5
    assert common_prefix(asked[:5], asked, least=5) == 0

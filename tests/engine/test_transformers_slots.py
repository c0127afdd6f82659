import pytest

pytest.importorskip("torch")

from retrain.engine.transformers_slots import Slot, SlotTable


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


def test_released_slots_are_lent_lowest_row_first():
    table = SlotTable(3, 0.0)
    occupy(table, "a", "b", "c")
    table.release("c")
    table.release("a")
    assert [table.take("d").index, table.take("e").index] == [0, 2]
    assert not table.empty


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

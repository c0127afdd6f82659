"""Each episode has its own state of the process's random generators."""

from __future__ import annotations

import random
import subprocess
import sys
import threading

import pytest

from retrain.environment.adapters.own_random import OwnRandom


def draw(own: OwnRandom) -> tuple[float, float]:
    numpy = pytest.importorskip("numpy")
    with own.in_place():
        return random.random(), float(numpy.random.random())


def test_a_seed_gives_the_same_draws_and_they_go_on_from_call_to_call() -> None:
    one, other, third = OwnRandom(3), OwnRandom(3), OwnRandom(4)
    first = [draw(one), draw(one)]

    assert [draw(other), draw(other)] == first
    assert first[0] != first[1]
    assert draw(third) != first[0]


def test_the_process_s_own_states_are_left_as_they_were() -> None:
    numpy = pytest.importorskip("numpy")
    random.seed(1)
    numpy.random.seed(1)
    expected = random.random(), numpy.random.random()
    random.seed(1)
    numpy.random.seed(1)
    own = OwnRandom(9)
    draw(own)
    with pytest.raises(KeyError), own.in_place():
        random.seed(5)
        raise KeyError

    assert (random.random(), numpy.random.random()) == expected


def test_threads_do_not_mix() -> None:
    alone = [[draw(own) for _ in range(50)] for own in map(OwnRandom, range(6))]
    together: dict[int, list[tuple[float, float]]] = {}

    def work(seed: int) -> None:
        own = OwnRandom(seed)
        together[seed] = [draw(own) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[seed] for seed in range(6)] == alone


def test_numpy_is_not_imported_for_it() -> None:
    program = (
        "import sys; from retrain.environment.adapters.own_random import OwnRandom\n"
        "with OwnRandom(1).in_place(): pass\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

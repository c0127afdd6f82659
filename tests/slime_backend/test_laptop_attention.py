from __future__ import annotations

import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'retrain[engine]'")

from backends.slime.laptop.attention import packed_attention  # noqa: E402

STARTS = [0, 3, 4, 9]
TOKENS, HEADS, GROUPS, SIZE = STARTS[-1], 4, 2, 8
SCALE = 1 / math.sqrt(SIZE)


@pytest.fixture
def packed() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((TOKENS, HEADS, SIZE), (TOKENS, GROUPS, SIZE), (TOKENS, GROUPS, SIZE))
    query, key, value = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    return query, key, value


def by_hand(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A token and a head at a time: softmax over the tokens before it in its own sequence."""
    out = torch.zeros(TOKENS, HEADS, SIZE, dtype=torch.float64)
    for start, end in pairwise(STARTS):
        for at in range(start, end):
            for head in range(HEADS):
                group = head * GROUPS // HEADS
                seen = slice(start, at + 1)
                weights = torch.softmax(key[seen, group] @ query[at, head] * SCALE, dim=0)
                out[at, head] = weights @ value[seen, group]
    return out.flatten(1)


def test_each_token_attends_to_its_own_sequence_up_to_itself(packed: tuple[torch.Tensor]) -> None:
    found = packed_attention(*packed, torch.tensor(STARTS), scale=SCALE)
    torch.testing.assert_close(found, by_hand(*packed))


def test_a_sequence_does_not_depend_on_its_neighbours(packed: tuple[torch.Tensor]) -> None:
    whole = packed_attention(*packed, torch.tensor(STARTS), scale=SCALE)
    alone = packed_attention(*(t[4:9] for t in packed), torch.tensor([0, 5]), scale=SCALE)
    assert torch.equal(whole[4:9], alone)


def test_gradients_reach_queries_keys_and_values(packed: tuple[torch.Tensor]) -> None:
    leaves = [tensor.clone().requires_grad_() for tensor in packed]
    packed_attention(*leaves, torch.tensor(STARTS), scale=SCALE).sum().backward()
    assert all(leaf.grad is not None and bool(leaf.grad.isfinite().all()) for leaf in leaves)
    assert leaves[2].grad is not None and float(leaves[2].grad.abs().sum()) > 0

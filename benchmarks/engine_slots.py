"""How much faster the in-process engine's KV slots are than `model.generate` once per turn.

Both run the same work in one process, alternating: rollouts of several turns, sampled at
temperature 1 until a stop token, with logprobs. `model.generate` takes all rollouts of a turn as
one left-padded batch and computes the whole history again every turn. What is compared is CPU time
per generated token, since sampled lengths differ; the ratio is the median over the repeats.

    python benchmarks/engine_slots.py [--rollouts 16] [--turns 3] [--repeats 7]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from retrain.engine.base import SamplingParams
from retrain.engine.transformers_engine import TransformersEngine

VOCABULARY = 320
STOP_IDS = tuple(range(300, 316))
PAD_ID = 319
MAX_SEQ_LEN = 2048


@dataclass(frozen=True, slots=True)
class Work:
    """What both sides do: token counts per rollout and turn."""

    rollouts: int
    turns: int
    prompt_tokens: int
    reply_tokens: int
    max_tokens: int

    def prompt(self, rollout: int) -> list[int]:
        """The first ids of a rollout."""
        return self._ids(rollout, self.prompt_tokens + rollout % 5)

    def reply(self, rollout: int, turn: int) -> list[int]:
        """What the environment answers to a turn."""
        return self._ids(1000 * (turn + 1) + rollout, self.reply_tokens + rollout % 3)

    def _ids(self, seed: int, count: int) -> list[int]:
        return random.Random(seed).choices(range(300), k=count)


def make_model() -> Qwen3ForCausalLM:
    """A random Qwen3 of 0.44 M parameters."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        tie_word_embeddings=True,
        max_position_embeddings=MAX_SEQ_LEN,
    )
    return Qwen3ForCausalLM(config).eval()


def with_slots(model: Qwen3ForCausalLM, work: Work, seed: int) -> int:
    """Run the work on the engine; returns how many tokens were written."""
    params = SamplingParams(work.max_tokens, stop_token_ids=frozenset(STOP_IDS))
    engine = TransformersEngine(model, max_slots=work.rollouts, max_seq_len=MAX_SEQ_LEN)

    async def episode(rollout: int) -> int:
        ids, written, name = work.prompt(rollout), 0, str(rollout)
        for turn in range(work.turns):
            turn_seed = hash((seed, rollout, turn))
            answer = await engine.generate(ids, params, session_id=name, seed=turn_seed)
            ids += [*answer.output_ids, *work.reply(rollout, turn)]
            written += len(answer.output_ids)
        await engine.release(name)
        return written

    async def episodes() -> int:
        return sum(await asyncio.gather(*(episode(r) for r in range(work.rollouts))))

    try:
        return asyncio.run(episodes())
    finally:
        engine.close()


def with_generate(model: Qwen3ForCausalLM, work: Work, seed: int) -> int:
    """Run the work with one batched `model.generate` per turn; returns the tokens written."""
    torch.manual_seed(seed)
    streams = [work.prompt(rollout) for rollout in range(work.rollouts)]
    written = 0
    for turn in range(work.turns):
        outputs = generate_turn(model, streams, work.max_tokens)
        for rollout, (stream, output) in enumerate(zip(streams, outputs, strict=True)):
            stream += [*output, *work.reply(rollout, turn)]
            written += len(output)
    return written


def generate_turn(
    model: Qwen3ForCausalLM, streams: Sequence[Sequence[int]], max_tokens: int
) -> list[list[int]]:
    """One turn of every rollout, with the logprobs of its tokens."""
    width = max(map(len, streams))
    ids = torch.tensor([[PAD_ID] * (width - len(s)) + list(s) for s in streams])
    mask = torch.tensor([[0] * (width - len(s)) + [1] * len(s) for s in streams])
    settings = GenerationConfig(
        max_new_tokens=max_tokens,
        do_sample=True,
        top_k=0,
        eos_token_id=list(STOP_IDS),
        pad_token_id=PAD_ID,
        return_dict_in_generate=True,
        output_logits=True,
    )
    result = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
    written = result.sequences[:, width:]
    logprobs = torch.log_softmax(torch.stack(result.logits, dim=1), dim=-1)
    logprobs.gather(-1, written[..., None])
    return [_until_stop(row) for row in written.tolist()]


def _until_stop(ids: list[int]) -> list[int]:
    ends = (n for n, token in enumerate(ids, 1) if token in STOP_IDS)
    return ids[: next(ends, len(ids))]


def microseconds_per_token(run: Callable[[], int]) -> float:
    """CPU time of one run per token that it wrote."""
    begin = time.process_time()
    written = run()
    return (time.process_time() - begin) / written * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=40)
    parser.add_argument("--reply-tokens", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    work = Work(args.rollouts, args.turns, args.prompt_tokens, args.reply_tokens, args.max_tokens)
    model = make_model()
    with_slots(model, work, 0)
    with_generate(model, work, 0)
    slots, generate, ratios = [], [], []
    for repeat in range(args.repeats):
        slots.append(microseconds_per_token(lambda r=repeat: with_slots(model, work, r)))
        generate.append(microseconds_per_token(lambda r=repeat: with_generate(model, work, r)))
        ratios.append(generate[-1] / slots[-1])
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{args.rollouts} rollouts x {args.turns} turns, {parameters:,} parameters, one thread")
    print(f"model.generate per turn  {statistics.median(generate):8.1f} us CPU per token")
    print(f"KV slots over turns      {statistics.median(slots):8.1f} us CPU per token")
    print(f"ratio                    {statistics.median(ratios):8.2f} (median of {args.repeats})")


if __name__ == "__main__":
    main()

"""What a user of slime writes by hand for an environment of several turns.

It is the loop of slime's `examples/geo3k_vlm_multi_turn`, whose observations are rendered by the
chat template: append each answer's tokens to the sample, encode the observation behind a dummy
conversation and cut that off, count the budget down, ask again. It is written here anew, without
images, and as it must be at this version of slime (observations bring no logprobs), over slime's
own `post` and `Sample`.
"""

from __future__ import annotations

from typing import Any

DUMMY = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "I am a user."},
]


class Dialog:
    """An environment of that example's kind: says the same after each turn but the last."""

    def __init__(self, *, turns: int, reply: str) -> None:
        self._left = turns
        self._reply = reply

    def reset(self) -> dict[str, Any]:
        """Begin."""
        return {}

    def step(self, response_text: str) -> tuple[dict[str, Any], bool, dict[str, Any]]:
        """The observation, whether the episode is over, and further facts."""
        self._left -= 1
        return {"obs_str": self._reply}, not self._left, {}

    def format_observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """The observation as a message."""
        return {"role": "user", "content": observation["obs_str"]}


class Pattern:
    """The hand-written `generate`.

    Args:
        tokenizer: The model's tokenizer.
        turns: Model turns of an episode.
        reply: What the environment says after each but the last.
    """

    def __init__(self, tokenizer: Any, turns: int, reply: str) -> None:
        self.tokenizer = tokenizer
        self.turns = turns
        self.reply = reply

    async def generate(self, args: Any, sample: Any, sampling_params: dict[str, Any]) -> Any:
        """Play one episode into a sample of slime's."""
        from slime.utils.http_utils import post

        url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
        params = sampling_params.copy()
        environment = Dialog(turns=self.turns, reply=self.reply)
        environment.reset()
        sample.tokens = self.prompt(sample.prompt)
        while params["max_new_tokens"] > 0:
            payload = {"input_ids": sample.tokens, "sampling_params": params}
            answer = await post(url, {**payload, "return_logprob": True})
            meta = answer["meta_info"]
            tokens = [item[1] for item in meta["output_token_logprobs"]]
            logprobs = [item[0] for item in meta["output_token_logprobs"]]
            sample.append_response_tokens(args, tokens=tokens, log_probs=logprobs, meta_info=meta)
            params["max_new_tokens"] -= len(tokens)
            if meta["finish_reason"]["type"] in ("length", "abort"):
                break
            said, done, _ = environment.step(answer["text"])
            if done:
                break
            observed = self.observation(environment.format_observation(said))
            sample.append_response_tokens(args, tokens=observed, trainable=False)
            params["max_new_tokens"] -= len(observed)
        sample.reward = 1.0
        response = sample.tokens[-sample.response_length :]
        sample.response = self.tokenizer.decode(response, skip_special_tokens=False)
        return sample

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """The first prompt's tokens."""
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def observation(self, message: dict[str, Any]) -> list[int]:
        """A message's tokens: those behind a dummy conversation."""
        template = self.tokenizer.apply_chat_template
        before = template(DUMMY, tokenize=False, add_generation_prompt=False)
        after = template([*DUMMY, message], tokenize=False, add_generation_prompt=True)
        cut = len(self.tokenizer.encode(before, add_special_tokens=False))
        ids: list[int] = self.tokenizer.encode(after, add_special_tokens=False)[cut:]
        return ids

"""POST /generate: what is answered, and what is refused by its name."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest
from waiting import wait_for

PROMPT = [1, 50, 60, 70]
GREEDY = {"max_new_tokens": 6, "temperature": 0.0}


def sampling(**options: Any) -> dict[str, Any]:
    return {"input_ids": PROMPT, "sampling_params": options, "return_logprob": True}


def refusal(server: Any, body: Any) -> str:
    reply = server.post("/generate", body)
    assert reply.status_code == 400, reply.text
    message: str = reply.json()["error"]["message"]
    return message


def test_answer_has_sglangs_shape_and_the_models_own_logprobs(server: Any) -> None:
    import torch

    served = server()
    body = {**sampling(max_new_tokens=6, temperature=0.7, sampling_seed=3), "rid": "mine"}
    reply = served.post("/generate", body).json()
    meta, ids = reply["meta_info"], reply["output_ids"]
    assert meta["id"] == "mine"
    assert meta["finish_reason"] == {"type": "length", "length": 6}
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (4, 6, 0)
    assert meta["weight_version"] == "default"
    assert [entry[1:] for entry in meta["output_token_logprobs"]] == [[i, None] for i in ids]
    model = served.service.loaded.model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*PROMPT, *ids]])).logits[0, 3:-1] / 0.7
    plain = torch.log_softmax(logits, -1)[range(6), ids].tolist()
    assert [entry[0] for entry in meta["output_token_logprobs"]] == pytest.approx(plain, abs=1e-4)
    assert served.post("/generate", body).json()["output_ids"] == ids, "the seed decides"
    assert (
        "output_token_logprobs"
        not in served.post("/generate", {"input_ids": PROMPT, "sampling_params": GREEDY}).json()[
            "meta_info"
        ]
    )


def test_stop_tokens_stay_in_the_ids_and_leave_the_text_unless_asked(server: Any) -> None:
    served = server()
    ids = served.post("/generate", sampling(**GREEDY)).json()["output_ids"]
    stop = ids[2]
    length = ids.index(stop) + 1
    decode = served.service.loaded.tokenizer.decode
    trimmed = served.post("/generate", sampling(**GREEDY, stop_token_ids=[stop])).json()
    kept = served.post(
        "/generate", sampling(**GREEDY, stop_token_ids=[stop, None], no_stop_trim=True)
    ).json()
    for reply in (trimmed, kept):
        assert reply["output_ids"] == ids[:length]
        assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert trimmed["text"] == decode(ids[: length - 1])
    assert kept["text"] == decode(ids[:length])
    on = served.post("/generate", sampling(**GREEDY, stop_token_ids=[stop], ignore_eos=True))
    assert on.json()["output_ids"] == ids


def test_a_stop_string_ends_the_turn_behind_the_token_that_completes_it(server: Any) -> None:
    served = server()
    free = {"max_new_tokens": 40, "temperature": 1.0, "sampling_seed": 3}
    ids = served.post("/generate", sampling(**free)).json()["output_ids"]
    decode = served.service.loaded.tokenizer.decode
    stop = next(t for n in range(8, 30) if "\ufffd" not in (t := decode(ids[n : n + 2])))
    length = next(n for n in range(1, 41) if stop in decode(ids[:n]))
    for form in (stop, ["never written", stop]):
        trimmed = served.post("/generate", sampling(**free, stop=form)).json()
        kept = served.post("/generate", sampling(**free, stop=form, no_stop_trim=True)).json()
        for reply in (trimmed, kept):
            assert reply["output_ids"] == ids[:length]
            assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
        assert trimmed["text"] == decode(ids[:length]).partition(stop)[0]
        assert stop in kept["text"]


def test_text_is_tokenized_by_the_models_own_tokenizer(server: Any) -> None:
    served = server()
    tokens = served.post("/tokenize", {"prompt": "1+1", "add_special_tokens": False}).json()
    by_text = served.post("/generate", {"text": "1+1", "sampling_params": GREEDY}).json()
    body = {"input_ids": tokens["tokens"], "sampling_params": GREEDY}
    assert by_text["output_ids"] == served.post("/generate", body).json()["output_ids"]
    assert by_text["meta_info"]["prompt_tokens"] == tokens["count"] > 0


def test_likeliest_first_token_is_told_at_the_requests_temperature(server: Any) -> None:
    served = server()

    def top(temperature: float) -> list[Any]:
        body = {**sampling(max_new_tokens=1, temperature=temperature), "top_logprobs_num": 1}
        return served.post("/generate", body).json()["meta_info"]["output_top_logprobs"][0][0]

    greedy = served.post("/generate", sampling(max_new_tokens=1, temperature=0)).json()
    assert top(1.0)[:2] == pytest.approx(greedy["meta_info"]["output_token_logprobs"][0][:2])
    assert top(2.0)[1] == top(1.0)[1]
    assert top(2.0)[0] < top(1.0)[0] - 0.01


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (sampling(min_p=0.1), "sampling_params: min_p: 0.1 is not supported"),
        (sampling(stop_regex=["x"]), "sampling_params: stop_regex: ['x'] is not supported"),
        (sampling(n=2), "sampling_params: n: 2 is not supported"),
        (sampling(custom_params={"a": 1}), "custom_params"),
        (sampling(tempreature=1.0), "sampling_params.tempreature: Extra inputs"),
        (sampling(temperature=-1.0), "sampling_params.temperature: Input should be greater"),
        (sampling(temperature="hot"), "sampling_params.temperature"),
        (sampling(top_p=0.0), "sampling_params.top_p"),
        (sampling(top_k=0), "top_k: 0, expected -1"),
        (sampling(max_new_tokens=0), "sampling_params.max_new_tokens"),
        (sampling(max_new_tokens=509), "4 prompt tokens + max_new_tokens 509 are more than"),
        (sampling(stop_token_ids=[354]), "stop_token_ids: 354, the model knows 0 to 353"),
        ({"input_ids": [354]}, "input_ids: 354, the model knows 0 to 353"),
        ({"input_ids": [-1]}, "input_ids.0: Input should be greater than or equal to 0"),
        ({"input_ids": [1.5]}, "input_ids.0"),
        ({"input_ids": [[1], [2]]}, "input_ids.0"),
        ({"input_ids": []}, "the prompt is empty"),
        ({"input_ids": [1], "text": "a"}, "either input_ids or text"),
        ({}, "either input_ids or text"),
        ({"input_ids": [1], "stream": True}, "stream: True is not supported"),
        ({"text": "a", "image_data": ["x"]}, "image_data: ['x'] is not supported"),
        ({"input_ids": [1], "return_routed_experts": True}, "return_routed_experts"),
        ({**sampling(max_new_tokens=2), "top_logprobs_num": 1}, "top_logprobs_num: only 1"),
        ({"input_ids": [1], "colour": "red"}, "colour: Extra inputs"),
        ([1, 2], "valid dictionary"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_name(
    shared_server: Any, body: Any, named: str
) -> None:
    assert named in refusal(shared_server, body)
    assert shared_server.running() == 0


def test_fields_that_ask_for_nothing_pass(shared_server: Any) -> None:
    nothing = {
        "stop": None,
        "min_p": 0.0,
        "frequency_penalty": 0,
        "repetition_penalty": 1.0,
        "stop_token_ids": None,
        "spaces_between_special_tokens": False,
        "skip_special_tokens": False,
        "top_k": -1,
        "temperature": None,
    }
    body = {**sampling(max_new_tokens=2, **nothing), "stream": False, "image_data": None}
    assert shared_server.post("/generate", body).status_code == 200


def test_broken_json_is_refused(shared_server: Any) -> None:
    reply = httpx.post(
        f"{shared_server.url}/generate",
        content=b'{"input_ids": [1',
        headers={"content-type": "application/json"},
    )
    assert reply.status_code == 400


async def test_turns_of_a_session_are_computed_once_even_if_two_come_at_once(server: Any) -> None:
    served = server()
    key = {"X-SMG-Routing-Key": "episode"}
    async with httpx.AsyncClient(base_url=served.url, timeout=20, trust_env=False) as client:

        async def turn(ids: list[int], headers: dict[str, str]) -> Any:
            body = {**sampling(max_new_tokens=20, sampling_seed=5), "input_ids": ids}
            return (await client.post("/generate", json=body, headers=headers)).json()

        first = await turn(PROMPT, key)
        longer = [*PROMPT, *first["output_ids"], 9]
        again, other, alone = await asyncio.gather(
            turn(longer, key), turn(longer, key), turn(longer, {})
        )
        cached = sorted(a["meta_info"]["cached_tokens"] for a in (again, other, alone))
        assert cached[-1] >= len(PROMPT) + len(first["output_ids"]) - 1
        assert again["output_ids"] == other["output_ids"] == alone["output_ids"]


async def test_seeds_are_drawn_for_requests_that_bring_none(server: Any) -> None:
    served = server(seed=7)
    body = sampling(max_new_tokens=12)
    drawn = [served.post("/generate", body).json()["output_ids"] for _ in range(3)]
    assert len({tuple(ids) for ids in drawn}) == 3
    same = server(seed=7)
    assert [same.post("/generate", body).json()["output_ids"] for _ in range(3)] == drawn


def test_request_id_in_use_is_refused_and_a_client_that_leaves_ends_its_request(
    server: Any,
) -> None:
    served = server()
    body = b'{"rid": "a", "input_ids": [1], "sampling_params": {"max_new_tokens": 500, '
    body += b'"ignore_eos": true}}'
    head = f"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    port = int(served.url.rpartition(":")[2])
    served.service.loaded.engine.hold(True)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head.encode() + body)
        wait_for(lambda: served.running() == 1)
        message = refusal(served, {"rid": "a", "input_ids": [1]})
        assert message == "Duplicate request ID detected: a"
    wait_for(lambda: served.running() == 0)
    served.service.loaded.engine.hold(False)
    assert served.post("/generate", sampling(**GREEDY)).status_code == 200

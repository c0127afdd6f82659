import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrain.config import REDACTED, is_credential, redact, redact_text

HOLDERS = """
api_key API_KEY apiKey openai-api-key OPENAI_API_KEY token hf_token HF_TOKEN authToken access_token
refresh_token slime_router_api_key slime_sglang_admin_api_key slime_wandb_key
router_control_plane_api_keys password slime_sglang_ssl_keyfile_password
slime_router_oracle_password db.passwd client_secret AWS_SECRET_ACCESS_KEY secrets credentials
private_key Authorization my_service_token
"""
OTHERS = """
max_tokens stop_token_ids max_tokens_per_turn tokenizer stop_token eos_token pad_token pad_token_id
trl_vllm_max_tokens tokens id_key prompt_key label_key slime_reward_key slime_input_key
slime_max_tokens_per_gpu slime_calculate_per_token_loss fim_prefix_token slime_linear_num_key_heads
slime_router_tls_key_path slime_router_client_key_path api_key_env slime_rl_skip_bos_token secretary
password_hint_shown keyboard monkey key keys x
"""


@pytest.mark.parametrize("key", HOLDERS.split())
def test_keys_that_hold_credentials(key: str) -> None:
    assert is_credential(key)
    assert redact({key: "hunter2"}) == {key: REDACTED}
    assert redact({key: 1234}) == {key: REDACTED}
    assert redact({key: {"user": "hunter2", "more": ["hunter2"]}}) == {
        key: {"user": REDACTED, "more": [REDACTED]}
    }
    assert redact({key: None}) == {key: None}
    assert redact({key: True}) == {key: True}


@pytest.mark.parametrize("key", [*OTHERS.split(), ""])
def test_keys_that_hold_none(key: str) -> None:
    assert not is_credential(key)
    assert redact({key: "plain"}) == {key: "plain"}


def test_credentials_inside_values_are_found_by_their_shape() -> None:
    assert redact("https://me:hunter2@host/x") == f"https://me:{REDACTED}@host/x"
    assert redact(["use sk-abcdefghijklmnop1234 now"]) == [f"use {REDACTED} now"]
    assert redact_text("hf_" + "a" * 30) == REDACTED
    assert redact_text("https://host:8000/a@b ask-me risk-free-of-charge-entirely") == (
        "https://host:8000/a@b ask-me risk-free-of-charge-entirely"
    )


words = st.sampled_from(["password", "max_tokens", "api_key", "eos_token", "name", "hf_token"])
trees = st.recursive(
    st.just("s3cr3t"), lambda inner: st.dictionaries(words, inner) | st.lists(inner), max_leaves=20
)


def leaves(value: object, under: bool = False) -> list[tuple[str, bool]]:
    if isinstance(value, dict):
        return [x for k, v in value.items() for x in leaves(v, under or is_credential(k))]
    if isinstance(value, list):
        return [x for v in value for x in leaves(v, under)]
    return [(str(value), under)]


@given(trees)
def test_exactly_what_stands_below_a_credentials_key_is_redacted(tree: object) -> None:
    before, after = leaves(tree), leaves(redact(tree))
    assert len(before) == len(after)
    assert all(text == (REDACTED if under else "s3cr3t") for text, under in after)

"""What is read of a body, and what is not."""

import json

import msgspec
import pytest

from specgate.engines.features import FEATURES, NAMES, asks
from specgate.proxy import fields
from specgate.proxy.fields import MAX_SEQUENCES, known, session_of


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("asked", "sequences"),
    [
        ({}, 1),
        ({"prompt": "a"}, 1),
        ({"prompt": "a", "n": 3}, 3),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": ["a", "b"], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": []}, 1),
        ({"prompt": None, "n": None}, 1),
        ({"text": ["a", "b"], "sampling_params": {"n": 3}}, 6),
        ({"text": ["a", "b"], "sampling_params": [{"n": 3}, {"n": 3}]}, 6),
        ({"text": ["a", "b"], "sampling_params": None}, 2),
        ({"text": "a", "sampling_params": "x"}, 1),
        ({"input_ids": [[1], [2], [3]]}, 3),
        ({"n": True}, 1),
        ({"n": "4"}, 4),
        ({"n": 4.0}, 4),
        ({"n": "four"}, 1),
        ({"n": "nan"}, 1),
        ({"n": "1e999"}, 1),
        ({"n": [4]}, 1),
        ({"n": -4}, 1),
        ({"n": 10**9}, MAX_SEQUENCES),
        ({"prompt": ["a"] * 2000}, MAX_SEQUENCES),
    ],
)
def test_sequences_are_n_times_the_prompts(asked, sequences):
    assert known(body(**asked)).sequences == sequences


@pytest.mark.parametrize(
    "text", [r"\ud83d", r"\ude00", r"\ud83dx\ud83d\ude00", r"\ude00\ud83d", r"\\ud83d\\\ud83d"]
)
def test_half_a_surrogate_pair_hides_nothing(text):
    """A text that was cut within an emoji; engines in Python take it."""
    sent = body(n=3, min_p=0.1)[:-1] + b', "prompt": "%b"}' % text.encode()
    assert json.loads(sent)["n"] == 3
    assert known(sent) == (3, ("min_p",), None, None)


def test_a_byte_order_mark_hides_nothing():
    assert known(b"\xef\xbb\xbf" + body(n=3)).sequences == 3


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be"])
def test_an_encoding_that_python_reads_hides_nothing(encoding):
    """vLLM's `json.loads` looks for it; such a body counted as one sequence, and met no rule."""
    sent = body(n=3, min_p=0.1, prompt="\N{SNOWMAN}").decode().encode(encoding)
    assert json.loads(sent)["n"] == 3
    assert known(sent) == (3, ("min_p",), None, None)


def test_half_a_pair_in_bytes_hides_nothing():
    sent = body(n=3)[:-1] + b', "prompt": "' + b"\xed\xa0\xbd" + b'"}'
    assert json.loads(sent)["n"] == 3
    assert known(sent).sequences == 3


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    "around", ['{"n": 3, "x": %s}', '{"x": {"y": [1, %s]}, "n": 3}', '{"z": "\\\\", "x":%s,"n":3}']
)
def test_what_is_no_number_hides_nothing(word, around):
    """Python's `json.loads` takes it, and so vLLM does."""
    sent = (around % word).encode()
    assert json.loads(sent)["n"] == 3
    assert known(sent).sequences == 3


def test_words_for_no_number_stay_where_they_are_text():
    named = known(body(session_id='NaN " NaN', n=3)[:-1] + b', "x": NaN}')
    assert (named.sequences, named.state) == (3, 'NaN " NaN')


@pytest.mark.parametrize(
    "unreadable", [b"", b"{", b"[1]", b"null", b"\xff", b"\xff\xfe{", b"[" * 100_000]
)
def test_what_cannot_be_read_is_one_sequence_and_no_more(unreadable):
    assert known(unreadable, conversation=True) == (1, (), None, None)
    assert session_of(unreadable) is None


def test_every_feature_of_the_tables_is_a_field_that_is_decoded():
    decoded = {field.name for field in msgspec.structs.fields(fields._Sampling)}
    assert decoded == {"n", *NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_feature_is_seen_at_the_top_and_in_sampling_params(name):
    assert known(body(**{name: 2})).features == (name,)
    assert known(body(text="a", sampling_params={name: 2})).features == (name,)
    neutrals: list[object] = [None, False, 0, 0.0, "", [], {}]
    for neutral in neutrals:
        assert known(body(**{name: neutral})).features == ()
        assert not asks(name, neutral)


def test_a_feature_has_one_effect_an_engine():
    for features in FEATURES.values():
        assert len({feature.field for feature in features}) == len(features)


@pytest.mark.parametrize(
    ("asked", "state"),
    [
        ({"previous_response_id": "resp_1"}, "resp_1"),
        ({"session_id": "s"}, "s"),
        ({"session_params": {"id": "s", "rid": None}}, "s"),
        ({"session_params": {"rid": "r"}}, None),
        ({"session_params": "s"}, None),
        ({"session_params": None, "session_id": "s"}, "s"),
        ({"previous_response_id": 5}, None),
        ({"previous_response_id": ""}, None),
        ({"previous_response_id": "x" * 300}, None),
    ],
)
def test_the_id_of_what_an_engine_holds(asked, state):
    assert known(body(**asked)).state == state


SYSTEM, FIRST = {"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}
ANSWER, SECOND = {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "How?"}


def talk(*messages: object, **fields: object) -> bytes | None:
    return known(body(messages=messages, **fields), conversation=True).conversation


def test_a_conversation_is_its_messages_up_to_the_first_of_the_user():
    begun = talk(SYSTEM, FIRST)
    assert begun is not None
    assert talk(SYSTEM, FIRST, ANSWER, SECOND) == begun
    assert talk(SYSTEM, FIRST, ANSWER, SECOND, temperature=0.5) == begun
    others = [talk(FIRST), talk(SYSTEM, SECOND), talk(SYSTEM, FIRST, user="a")]
    assert len({begun, *others, talk(SYSTEM, FIRST, user="b")}) == 5
    assert talk(SYSTEM) is None
    assert known(body(prompt="a"), conversation=True).conversation is None
    assert known(body(messages=[SYSTEM, FIRST])).conversation is None


def test_a_conversation_that_has_a_name_is_its_name():
    named = talk(SYSTEM, FIRST, prompt_cache_key="k")
    assert named == talk(SECOND, prompt_cache_key="k") == talk(FIRST, session_id="k")
    assert named not in (talk(SYSTEM, FIRST), talk(SYSTEM, FIRST, prompt_cache_key="l"))
    assert named != b"k"


def test_odd_messages_are_no_conversation():
    for odd in ("x", 5, [1], ["user"], [{"role": 5}], [[FIRST]]):
        assert known(body(messages=odd), conversation=True).conversation is None


def test_a_prompt_of_tokens_is_not_decoded(monkeypatch):
    """A list of 40,000 token ids would be as many objects."""

    def decoded(_: bytes) -> list[msgspec.Raw]:
        raise AssertionError

    monkeypatch.setattr(fields, "_decode_list", decoded)
    assert known(body(prompt=[50_000] * 40_000)).sequences == 1

"""The few fields of a body that matter to the gate: how many sequences it asks for, and what the
rules look at (`core.rules`).

A typed partial decode: everything else is skipped unbuilt, and what cannot be read (not JSON,
compressed, absurd) is one sequence and no rule's.
"""

import json
import re
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from specgate.core.ids import ID_MAX
from specgate.core.routes import RouteClass
from specgate.core.usage import asking
from specgate.engines.features import NAMES, asks

MAX_SEQUENCES = 1024
"""No request counts for more, whatever it says: a wrong `n` must not move the gate for all."""

_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
"""UnicodeDecodeError and Python's JSONDecodeError are ValueErrors."""


_NOT_THERE = msgspec.Raw()
"""Not `Raw | None`: to msgspec that is null and nothing else."""


class Known(NamedTuple):
    """What a body says. sequences: n x prompts, at least 1. features: fields that some engine has a
    rule for, none neutral. state: the id of what an engine holds. conversation: a hash, where asked
    for."""

    sequences: int = 1
    features: tuple[str, ...] = ()
    state: str | None = None
    conversation: bytes | None = None


class _Sampling(msgspec.Struct):
    """Only these are built. Every name in `engines.features` is one of them."""

    n: Any = None
    min_p: Any = None
    logit_bias: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    repetition_penalty: Any = None
    beam_width: Any = None
    use_beam_search: Any = None
    best_of: Any = None
    logprobs: Any = None
    n_probs: Any = None
    custom_logit_processor: Any = None
    return_sampling_mask: Any = None
    prompt_embeds: Any = None

    def features(self) -> tuple[str, ...]:
        """Those that ask for something."""
        # In one expression, for the many requests that have none of them.
        if (
            self.min_p
            or self.logit_bias
            or self.frequency_penalty
            or self.presence_penalty
            or self.repetition_penalty
            or self.beam_width
            or self.use_beam_search
            or self.best_of
            or self.logprobs
            or self.n_probs
            or self.custom_logit_processor
            or self.return_sampling_mask
            or self.prompt_embeds
        ):
            return tuple(name for name in NAMES if asks(name, getattr(self, name)))
        return ()


class _Session(msgspec.Struct):
    id: Any = None


class _Fields(_Sampling):
    prompt: msgspec.Raw = _NOT_THERE
    text: msgspec.Raw = _NOT_THERE
    input_ids: msgspec.Raw = _NOT_THERE
    sampling_params: msgspec.Raw = _NOT_THERE
    previous_response_id: Any = None
    session_id: Any = None
    session_params: msgspec.Raw = _NOT_THERE


class _Talk(msgspec.Struct):
    """What tells one conversation from another."""

    prompt_cache_key: Any = None
    session_id: Any = None
    user: Any = None
    messages: msgspec.Raw = _NOT_THERE


class _Message(msgspec.Struct):
    role: Any = None


class _Stream(msgspec.Struct):
    stream: Any = None
    stream_options: Any = msgspec.UNSET


_AHEAD = 64
"""Bytes within which the first item of a list begins; more space before it than that has none."""

_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_sampling = msgspec.json.Decoder(_Sampling).decode
_decode_session = msgspec.json.Decoder(_Session).decode
_decode_talk = msgspec.json.Decoder(_Talk).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_stream = msgspec.json.Decoder(_Stream).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def known(body: bytes, *, conversation: bool = False) -> Known:
    """What a generation request's body says. conversation: which it belongs to, too."""
    try:
        body, fields = _read(body)
        n, features = fields.n, fields.features()
        if fields.sampling_params:
            sampled = _sampling(fields.sampling_params)
            n = sampled.n if n is None else n
            features += sampled.features()
        prompts = 1
        for raw in (fields.prompt, fields.text, fields.input_ids):
            if raw:
                prompts = max(prompts, _prompts(raw))
        state = None
        if fields.previous_response_id or fields.session_params or fields.session_id:
            state = _state(fields)
        talk = _conversation(body) if conversation else None
    except _UNREADABLE:
        return Known()
    if n is not None or prompts != 1:
        prompts = min(MAX_SEQUENCES, max(1, _copies(n)) * prompts)
    return Known(prompts, features, state, talk)


def _read(body: bytes) -> tuple[bytes, _Fields]:
    """The body, mended where it needs to be, and its fields. vLLM reads bodies with Python's
    `json.loads`, as FastAPI does that is left alone: what that takes and JSON does not have is
    served, and must not be what goes uncounted. llama.cpp, and SGLang by orjson, answer 400 to most
    of it. Raises what `_UNREADABLE` lists."""
    try:
        return body, _decode_fields(body)
    except _UNREADABLE:
        pass
    # Byte by byte the same but for this: a conversation is known by its bytes.
    whole = _HALF_A_PAIR.sub(rb"\\u003f", body.removeprefix(b"\xef\xbb\xbf"))
    try:
        return whole, _decode_fields(whole)
    except _UNREADABLE:
        plain = _plain(body)
        return plain, _decode_fields(plain)


# Half of a surrogate pair, as a text has that was cut within a character.
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_A_PAIR = re.compile(rb"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))


def _plain(body: bytes) -> bytes:
    """What `json.loads` makes of it, as JSON: of UTF-16 and UTF-32, with null for NaN and for the
    infinities. It takes 30 ms at most of the longest body that is read ahead."""
    said = json.loads(body, parse_constant=_null)
    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")


def _null(_: str) -> None:
    return None


def _copies(n: object) -> int:
    """What engines take for a number: "3" and 3.0 are 3 to them. 1 for all else."""
    if isinstance(n, bool) or not isinstance(n, int | float | str):
        return 1
    try:
        return n if isinstance(n, int) else int(float(n))
    except (ValueError, OverflowError):
        return 1


def session_of(body: bytes) -> str | None:
    """The session that a body of /close_session names."""
    try:
        return _usable(_read(body)[1].session_id)
    except _UNREADABLE:
        return None


def with_usage(route: RouteClass, body: bytes) -> bytes | None:
    """The body with the question for usage, None where it has no place or the client has its own
    word on it, whatever that is."""
    if route not in (RouteClass.CHAT, RouteClass.COMPLETIONS):
        return None
    try:
        fields = _decode_stream(body)
    except _UNREADABLE:
        return None
    if fields.stream is not True or fields.stream_options is not msgspec.UNSET:
        return None
    return asking(body)


def _sampling(raw: msgspec.Raw) -> _Sampling:
    """Of /generate; of a batch with its own for each prompt, the first's."""
    value = bytes(raw).lstrip()
    if value.startswith(b"["):
        items = _decode_list(value)
        value = bytes(items[0]) if items else b"{}"
    return _decode_sampling(value if value.startswith(b"{") else b"{}")


def _prompts(raw: msgspec.Raw) -> int:
    """1 for a text or a list of token ids; the length of a list of texts or of lists."""
    value = bytes(raw).lstrip()
    # Looked at before it is decoded: a list of token ids has thousands of items.
    if not value.startswith(b"[") or not value[1:_AHEAD].lstrip().startswith((b'"', b"[", b"{")):
        return 1
    return max(1, len(_decode_list(value)))


def _state(fields: _Fields) -> str | None:
    """The id of a stored response, else that of a session."""
    session = fields.session_id
    params = fields.session_params
    if bytes(params).lstrip().startswith(b"{"):
        session = _decode_session(bytes(params)).id or session
    return _usable(fields.previous_response_id) or _usable(session)


def _usable(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= ID_MAX else None


def conversation_of(name: bytes) -> bytes:
    """The hash of a name that a client gave its conversation."""
    return blake2b(name, digest_size=16, person=b"name").digest()


def _conversation(body: bytes) -> bytes | None:
    """By the client's own name for it, else by the user and the messages up to the user's first,
    which do not change as it goes on."""
    talk = _decode_talk(body)
    for given in (talk.prompt_cache_key, talk.session_id):
        if isinstance(given, str) and given:
            return conversation_of(given.encode("utf-8", "replace"))
    if not talk.messages:
        return None
    leading = blake2b(digest_size=16, person=b"messages")
    if isinstance(talk.user, str):
        leading.update(talk.user.encode("utf-8", "replace"))
    for raw in _decode_list(talk.messages):
        message = bytes(raw)
        leading.update(b"\0" + message)
        if _decode_message(message).role == "user":
            return leading.digest()
    return None

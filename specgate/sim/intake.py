"""Requests as the engine's three generation routes take them, read into one `Ask`.

    read_chat         POST /v1/chat/completions     messages
    read_completion   POST /v1/completions          prompt: a text, token ids, or several of either
    read_generate     POST /generate                text or input_ids, sampling_params

Unknown fields are tolerated, as the engine does. `orders` turns an Ask into sequences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from uuid import uuid4

import msgspec

from specgate.sim.call import Order
from specgate.sim.engine import Engine
from specgate.sim.model import Job
from specgate.sim.prompts import PromptClass, class_p, classify, count_tokens
from specgate.sim.text import natural_length

CLASS_FIELD = "x-sim-class"
MOST_SEQUENCES = 1_024
COMPLETION_TOKENS = 16
GENERATE_TOKENS = 128
TOKENS_PER_MESSAGE = 4


class BadRequestError(ValueError):
    """The body cannot be served; the message names the field. Answered with 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. `batched`: the prompts came as a list, and so must a native reply."""

    rid: str
    model: str | None
    prompts: tuple[Prompt, ...]
    choices: int
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    prompt_class: PromptClass | None
    seed: int | None
    batched: bool = False

    @property
    def prompt_tokens(self) -> int:
        return sum(prompt.tokens for prompt in self.prompts)


Positive = Annotated[int, msgspec.Meta(ge=1)]
Ids = list[int]
T = TypeVar("T", bound=msgspec.Struct)


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Common(msgspec.Struct):
    model: str | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    max_tokens: Positive | None = None
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    seed: int | None = None
    rid: str | None = None
    sim_class: str | None = msgspec.field(default=None, name=CLASS_FIELD)


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None


class _Chat(_Common, kw_only=True):
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: Positive | None = None


class _Completion(_Common, kw_only=True):
    prompt: str | list[str | int | Ids]


class _Sampling(msgspec.Struct):
    max_new_tokens: Positive | None = None
    min_new_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    ignore_eos: bool | None = None
    sampling_seed: int | None = None


class _Generate(msgspec.Struct):
    text: str | list[str] | None = None
    input_ids: list[int | Ids] | None = None
    sampling_params: _Sampling | None = None
    stream: bool | None = None
    rid: str | None = None
    sim_class: str | None = msgspec.field(default=None, name=CLASS_FIELD)


def read_chat(body: bytes, headers: Mapping[str, str]) -> Ask:
    chat = _decode(body, _Chat)
    text = "\n".join(_text_of(message) for message in chat.messages)
    tokens = count_tokens(text) + TOKENS_PER_MESSAGE * len(chat.messages)
    most = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
    return _openai(chat, headers, (Prompt(text=text, tokens=tokens),), most)


def read_completion(body: bytes, headers: Mapping[str, str]) -> Ask:
    completion = _decode(body, _Completion)
    raw = completion.prompt
    if isinstance(raw, str):
        prompts: tuple[Prompt, ...] = (Prompt(text=raw, tokens=count_tokens(raw)),)
    else:
        prompts = _several(raw, "prompt")
    most = COMPLETION_TOKENS if completion.max_tokens is None else completion.max_tokens
    return _openai(completion, headers, prompts, most)


def read_generate(body: bytes, headers: Mapping[str, str]) -> Ask:
    generate = _decode(body, _Generate)
    raw = generate.text if generate.text is not None else generate.input_ids
    if raw is None:
        raise BadRequestError("one of text and input_ids is needed")
    if isinstance(raw, str):
        prompts: tuple[Prompt, ...] = (Prompt(text=raw, tokens=count_tokens(raw)),)
    else:
        prompts = _several(raw, "text" if generate.text is not None else "input_ids")
    sampling = generate.sampling_params or _Sampling()
    return Ask(
        rid=generate.rid or uuid4().hex,
        model=None,
        prompts=prompts,
        choices=sampling.n or 1,
        max_tokens=sampling.max_new_tokens or GENERATE_TOKENS,
        min_tokens=sampling.min_new_tokens or 0,
        ignore_eos=bool(sampling.ignore_eos),
        stream=bool(generate.stream),
        include_usage=False,
        continuous_usage=False,
        prompt_class=_prompt_class(generate.sim_class, headers),
        seed=sampling.sampling_seed,
        batched=not isinstance(raw, str) and not isinstance(raw[0], int),
    )


def orders(ask: Ask, engine: Engine) -> list[Order]:
    """A sequence for each choice of each prompt, in that order.

    Raises BadRequestError if one is longer than the engine's context, or if they are too many.
    """
    if len(ask.prompts) * ask.choices > MOST_SEQUENCES:
        raise BadRequestError(f"more than {MOST_SEQUENCES} sequences in one request")
    found: list[Order] = []
    for prompt in ask.prompts:
        room = engine.context_tokens - prompt.tokens
        if room < max(1, ask.max_tokens or 1):
            raise BadRequestError(
                f"{prompt.tokens} prompt tokens and {ask.max_tokens or 1} of output are more than "
                f"the model's context of {engine.context_tokens} tokens"
            )
        prompt_class = ask.prompt_class or classify(prompt.text)
        accept_p = class_p(prompt_class, engine.shape.accept_p)
        text = prompt.text if ask.seed is None else f"{ask.seed}/{prompt.text}"
        for choice in range(ask.choices):
            place = engine.tape.place(text, choice)
            natural = max(natural_length(place, prompt_class), ask.min_tokens)
            most = room if ask.max_tokens is None else ask.max_tokens
            stops = natural <= most and not (ask.ignore_eos and ask.max_tokens is not None)
            output = min(natural, most) if stops else most
            job = Job(
                prompt_tokens=prompt.tokens,
                output_tokens=output,
                reserve_tokens=output if ask.max_tokens is None else ask.max_tokens,
                accept_p=accept_p,
            )
            found.append(Order(job=job, place=place, finish="stop" if stops else "length"))
    return found


def _openai(
    read: _Common, headers: Mapping[str, str], prompts: tuple[Prompt, ...], most: int | None
) -> Ask:
    options = read.stream_options or _StreamOptions()
    return Ask(
        rid=read.rid or uuid4().hex,
        model=read.model,
        prompts=prompts,
        choices=read.n or 1,
        max_tokens=most,
        min_tokens=read.min_tokens or 0,
        ignore_eos=bool(read.ignore_eos),
        stream=bool(read.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
        prompt_class=_prompt_class(read.sim_class, headers),
        seed=read.seed,
    )


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as exc:
        raise BadRequestError(str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise BadRequestError("the body is not UTF-8") from exc


def _several(raw: list[Any], field: str) -> tuple[Prompt, ...]:
    """Token ids of one prompt, or a list of prompts that are texts or token ids."""
    if not raw:
        raise BadRequestError(f"{field} is empty")
    if all(isinstance(item, int) for item in raw):
        return (Prompt(text=repr(raw), tokens=len(raw)),)
    if any(isinstance(item, int) for item in raw):
        raise BadRequestError(f"{field} mixes token ids and prompts")
    return tuple(
        Prompt(text=item, tokens=count_tokens(item))
        if isinstance(item, str)
        else Prompt(text=repr(item), tokens=max(1, len(item)))
        for item in raw
    )


def _text_of(message: _Message) -> str:
    if isinstance(message.content, list):
        return "\n".join(str(part.get("text", "")) for part in message.content)
    return message.content or ""


def _prompt_class(field: str | None, headers: Mapping[str, str]) -> PromptClass | None:
    name = field or headers.get(CLASS_FIELD)
    if name is None:
        return None
    try:
        return PromptClass(name)
    except ValueError:
        names = ", ".join(PromptClass)
        raise BadRequestError(f"{CLASS_FIELD} is {name!r}; it is one of {names}") from None

"""The prompts that a bench sends: which ones, in which order, and what makes each one fresh.

    load("builtin")     ours: chat, code, summary, extraction, maths, translation
    load("fixed")       one that speculation likes, over and over
    load("FILE")        JSON lines (or one JSON list) in OpenAI's or ShareGPT's shape

A deal of prompts depends on its seed and its block alone, so that every arm gets the same ones in
the same order, in this run or another. A nonce in front of each keeps prefix caches out of it: of
the block, so that arms agree on it, and of the salt, so that a second bench does not meet its own
leavings.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from specgate.bench.faults import Misused
from specgate.bench.plan import Block
from specgate.bench.rates import RateBlock

BUILTIN, FIXED = "builtin", "fixed"
CHARACTERS_PER_TOKEN = 4.2
"""Of English text, about; what a prompt came to is in the record, by the engine's count."""

UNKNOWN_CLASS = "other"
_FIXED_PROMPT = (
    "Write out the multiplication tables of 1 to 12 in full, one product a line, each in the form "
    "'3 times 4 is 12', without any other words. Begin with '1 times 1 is 1'."
)
_BACKGROUND = "Background, from which the question below may or may not draw:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Messages of (role, text), and the class under which its figures are listed."""

    messages: tuple[tuple[str, str], ...]
    prompt_class: str

    @property
    def text(self) -> str:
        return "\n\n".join(content for _, content in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """One request's prompt, fresh, with the seed for its sampling."""

    prompt: Prompt
    seed: int


def load(source: str) -> tuple[Prompt, ...]:
    """The prompts of a source. Raises Misused: no such file, or a line in no known shape."""
    if source == FIXED:
        return (Prompt(messages=(("user", _FIXED_PROMPT),), prompt_class=FIXED),)
    if source == BUILTIN:
        data = resources.files("specgate.bench").joinpath("data/prompts.jsonl").read_bytes()
        return _parsed(data, "the shipped prompts")
    try:
        data = Path(source).read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        raise Misused(f"--prompts {source}: {why}; builtin, fixed or a JSONL file") from error
    return _parsed(data, f"--prompts {source}")


def digest(prompts: Sequence[Prompt]) -> str:
    """Tells sets of prompts apart."""
    joined = msgspec.json.encode([(prompt.prompt_class, prompt.messages) for prompt in prompts])
    return hashlib.sha256(joined).hexdigest()[:16]


def deal(
    prompts: Sequence[Prompt], block: Block | RateBlock, count: int, *, seed: int, salt: str
) -> list[Dealt]:
    """So many prompts for a block: the classes mixed evenly, repeated when they are used up."""
    name = f"{seed}/{block.name}"
    rng = Random(name)  # noqa: S311 - an order, not a secret
    order: list[Prompt] = []
    while len(order) < count:
        order += _mixed(prompts, rng)
    dealt = []
    for index, prompt in enumerate(order[:count]):
        if block.group.context is not None:
            prompt = _lengthened(prompt, block.group.context, prompts, rng)
        mark = hashlib.sha256(f"{salt}/{name}/{index}".encode()).hexdigest()
        dealt.append(Dealt(prompt=_marked(prompt, mark[:8]), seed=int(mark[8:15], 16)))
    return dealt


def _mixed(prompts: Sequence[Prompt], rng: Random) -> list[Prompt]:
    """All of them once, each class spread evenly over the whole: any stretch has the set's mix."""
    by_class: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        by_class[prompt.prompt_class].append(prompt)
    placed = []
    for members in by_class.values():
        rng.shuffle(members)
        placed += [((i + rng.random()) / len(members), p) for i, p in enumerate(members)]
    return [prompt for _, prompt in sorted(placed, key=lambda pair: pair[0])]


def _lengthened(prompt: Prompt, tokens: int, prompts: Sequence[Prompt], rng: Random) -> Prompt:
    """The same question behind real text, about so many tokens in all; never a shorter one."""
    room = round(tokens * CHARACTERS_PER_TOKEN) - len(prompt.text) - len(_BACKGROUND)
    if room <= 0:
        return prompt
    pieces: list[str] = []
    while room > 0:
        for other in rng.sample(list(prompts), len(prompts)):
            pieces.append(other.text[:room])
            room -= len(other.text) + 2
            if room <= 0:
                break
    (role, content), *rest = prompt.messages
    background = "\n\n".join([_BACKGROUND, *pieces, content])
    return Prompt(messages=((role, background), *rest), prompt_class=prompt.prompt_class)


def _marked(prompt: Prompt, nonce: str) -> Prompt:
    """With the nonce first of all: a prefix cache finds nothing beyond the chat template."""
    (role, content), *rest = prompt.messages
    marked = (role, f"[{nonce}] {content}")
    return Prompt(messages=(marked, *rest), prompt_class=prompt.prompt_class)


def _parsed(data: bytes, where: str) -> tuple[Prompt, ...]:
    try:
        if data.lstrip().startswith(b"["):
            rows = list(enumerate(msgspec.json.decode(data), 1))
        else:
            lines = enumerate(data.splitlines(), 1)
            rows = [(n, msgspec.json.decode(line)) for n, line in lines if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Misused(f"{where}: not JSON: {error}") from error
    prompts = []
    for number, row in rows:
        prompt = _prompt(row)
        if prompt is None:
            raise Misused(
                f"{where}, entry {number}: neither messages (OpenAI), conversations (ShareGPT) "
                "nor a prompt with any text"
            )
        prompts.append(prompt)
    if not prompts:
        raise Misused(f"{where}: no prompts in it")
    return tuple(prompts)


def _prompt(row: Any) -> Prompt | None:
    """OpenAI: messages up to the last one of the user. ShareGPT: the first human turn."""
    if not isinstance(row, dict):
        return None
    if isinstance(row.get("body"), dict):
        row = {**row, **row["body"]}
    name = row.get("class") or row.get("category")
    prompt_class = name if isinstance(name, str) else UNKNOWN_CLASS
    found: list[tuple[str, str]] = []
    if isinstance(row.get("prompt"), str):
        found = [("user", row["prompt"])]
    elif isinstance(row.get("messages"), list):
        found = [_message(m, "role", "content") for m in row["messages"] if isinstance(m, dict)]
        while found and found[-1][0] != "user":
            found.pop()
    elif isinstance(row.get("conversations"), list):
        turns = [_message(m, "from", "value") for m in row["conversations"] if isinstance(m, dict)]
        found = [("user", text) for role, text in turns if role in ("human", "user")][:1]
    found = [(role, text) for role, text in found if text]
    if not found:
        return None
    return Prompt(messages=tuple(found), prompt_class=prompt_class)


def _message(message: dict[str, Any], role: str, content: str) -> tuple[str, str]:
    said = message.get(content)
    if isinstance(said, list):
        said = "\n".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
    return str(message.get(role, "user")), said if isinstance(said, str) else ""

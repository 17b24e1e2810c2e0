"""What to measure, in which order, and about how long it takes. Pure.

A *block* is one repeat of one level: all arms, back to back, on the same prompts. Repeats of a
level follow each other and turn the order of the arms around each time (ABBA), so that what drifts
steadily, such as clocks and temperatures, cancels in the mean of the ratios.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LEVELS = (1, 2, 5, 10, 30, 70, 100, 250)
REPEATS = 2
"""Of a level, before a budget is spent on more; one repeat has no spread."""

REQUESTS_PER_STREAM = 5
REQUESTS_AT_LEAST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Levels that are compared with each other. `context`: prompt tokens aimed at, None for the
    prompts as they are; `max_tokens`: output tokens asked for."""

    context: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One repeat (0, 1, ...) of one level of a group."""

    group: Group
    concurrency: int
    repeat: int

    @property
    def name(self) -> str:
        """What its prompts and their order follow from."""
        return f"{self.group}/{self.concurrency}/{self.repeat}"

    @property
    def label(self) -> str:
        return f"C={self.concurrency}"

    @property
    def place(self) -> dict[str, Any]:
        """As lines of the record name it."""
        return {
            "concurrency": self.concurrency,
            "context": self.group.context,
            "max_tokens": self.group.max_tokens,
            "repeat": self.repeat,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`levels`: ascending. `requests`: a level's, if the user says so; `warm_up`: likewise."""

    arms: tuple[str, ...]
    levels: tuple[int, ...] = LEVELS
    contexts: tuple[int | None, ...] = (None,)
    max_tokens: tuple[int, ...] = (256,)
    repeats: int = REPEATS
    requests: int | None = None
    warm_up: int | None = None

    @property
    def paired(self) -> bool:
        """Whether a block holds more than one arm."""
        return len(self.arms) > 1

    def groups(self) -> Iterator[Group]:
        for context in self.contexts:
            for max_tokens in self.max_tokens:
                yield Group(context=context, max_tokens=max_tokens)

    def blocks(self) -> Iterator[Block]:
        """All of it, in the order in which it is measured."""
        for group in self.groups():
            for concurrency in self.levels:
                for repeat in range(self.repeats):
                    yield Block(group=group, concurrency=concurrency, repeat=repeat)

    def order(self, block: Block) -> tuple[str, ...]:
        """The arms of a block, in the order in which they are measured."""
        return self.arms if block.repeat % 2 == 0 else self.arms[::-1]

    def measured(self, concurrency: int) -> int:
        """Requests of a cell that count."""
        if self.requests is not None:
            return max(self.requests, concurrency)
        return max(REQUESTS_PER_STREAM * concurrency, REQUESTS_AT_LEAST)

    def warming(self, concurrency: int) -> int:
        """Requests of a cell before its window opens: each stream's first one, at least."""
        return max(self.warm_up or 0, concurrency)

    def sent(self, concurrency: int) -> int:
        """Requests of a cell in all: the last ones keep it full while those that count end."""
        return self.warming(concurrency) + self.measured(concurrency) + concurrency - 1


class Pace:
    """Expects how long things take, from what was measured so far. Seconds.

    Between levels it guesses that throughput grows like the square root of concurrency up to
    FULL_AT, and not beyond: between the reference's two lanes, which grow 4.4- and 8.5-fold.
    """

    FULL_AT = 64

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[float, float]] = {}

    def learn(
        self, arm: str, concurrency: int, *, seconds: float, tokens: float, first_s: float = 0.0
    ) -> None:
        """A request of so many tokens took so long, `first_s` of it until the first one, while
        `concurrency` were in flight."""
        self._seen[arm, concurrency] = first_s, (seconds - first_s) / max(tokens, 1)

    def request_s(self, arm: str, concurrency: int, max_tokens: int) -> float | None:
        """None before anything was learnt of the arm."""
        levels = [level for name, level in self._seen if name == arm]
        if not levels:
            return None
        near = min(levels, key=lambda level: abs(_slowdown(level) - _slowdown(concurrency)))
        first_s, per_token_s = self._seen[arm, near]
        alike_s = first_s + per_token_s * max_tokens
        return alike_s * _slowdown(concurrency) / _slowdown(near)

    def cell_s(self, plan: Plan, arm: str, block: Block) -> float:
        """A cell with its ramp and tail; 0 for an arm of which nothing is known."""
        each = self.request_s(arm, block.concurrency, block.group.max_tokens) or 0.0
        return each * (plan.sent(block.concurrency) / block.concurrency + 0.5)

    def block_s(self, plan: Plan, block: Block) -> float:
        return sum(self.cell_s(plan, arm, block) for arm in plan.arms)

    def plan_s(self, plan: Plan) -> float:
        return sum(self.block_s(plan, block) for block in plan.blocks())


def _slowdown(concurrency: int) -> float:
    """How many times longer a request takes than alone."""
    return float(concurrency / min(concurrency, Pace.FULL_AT) ** 0.5)

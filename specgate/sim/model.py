"""One lane's continuous batching, as pure state: time is an argument, nothing sleeps.

Rules, all of them in this file:

1. Sequences wait first come, first served.
2. The lane does one operation at a time. If the head of the queue fits, the operation is a prefill
   of every sequence that fits, in order; otherwise it is one step of the whole running batch.
3. A sequence fits while the batch is below the cap and the reserved tokens (prompt + most output)
   stay within the KV budget. The head blocks those behind it.
4. A prefill gives each of its sequences their first token. A step gives one token in the plain
   lane, and in the spec lane one more for every draft token accepted before the first refusal.
5. An aborted sequence leaves at once; the operation in flight still runs to its end.

What an operation costs in seconds is `begin`'s answer; how fast those pass is the pool's affair
(`sim/pool.py`), since both lanes draw on the same processors.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import NamedTuple

from specgate.sim.accept import scale_p, spread_p, thresholds
from specgate.sim.profiles import LaneShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one sequence asks for. `output_tokens` it will emit, at least 1; `reserve_tokens` of
    output count against the KV budget. `accept_p`: mean p of its prompt's class, None for mixed.
    """

    prompt_tokens: int
    output_tokens: int
    reserve_tokens: int
    accept_p: float | None = None


class Place(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Sequence:
    """A job inside a lane. Times are the pool's seconds; `order` counts the lane's submissions."""

    job: Job
    order: int
    submitted_at: float
    rng: Random
    p: float
    place: Place = Place.QUEUED
    emitted: int = 0
    verified_steps: int = 0
    accepted_drafts: int = 0
    thresholds: tuple[float, ...] = ()
    accepted_histogram: list[int] = field(default_factory=list)

    @property
    def kv_reserved(self) -> int:
        return self.job.prompt_tokens + self.job.reserve_tokens

    @property
    def accept_length(self) -> float:
        """Tokens per step so far, bonus included; 1 before the first step."""
        return 1 + self.accepted_drafts / self.verified_steps if self.verified_steps else 1.0


class Progress(NamedTuple):
    """Tokens that one operation gave one sequence, and whether they were its last."""

    sequence: Sequence
    tokens: int
    finished: bool


class Done(NamedTuple):
    """A finished operation. `batch`: sequences in it; `running_before`: in the batch when it began,
    those being prefilled not counted; `drafted`/`accepted`: draft tokens over the batch.
    """

    prefill: bool
    batch: int
    running_before: int
    tokens: int
    accepted: int
    progress: list[Progress]


class CannotFitError(ValueError):
    """The sequence would need more KV tokens than the lane has at all."""


class LaneModel:
    """See the rules above. Deterministic: same seed, same submissions in order, same outcome."""

    def __init__(self, shape: LaneShape, *, seed: int = 0) -> None:
        self.shape = shape
        self.slow_factor = 1.0
        self.frozen = False
        """It begins no operation; whoever thaws it sees to it that it begins again."""
        self.steps = 0
        self.tokens = 0
        self.verified = 0
        self.accepted = 0
        self._seed = seed
        self._phase = Random(seed).random()  # noqa: S311 - a simulation
        self._accept_factor = 1.0
        self._submitted = 0
        self._queue: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._in_operation: list[Sequence] = []
        self._prefilling = False
        self._kv_reserved = 0

    @property
    def running(self) -> int:
        """Sequences in the batch, those being prefilled included."""
        return len(self._running)

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def kv_reserved(self) -> int:
        return self._kv_reserved

    @property
    def kv_used(self) -> int:
        """Tokens of prompt and output actually held by the batch."""
        return sum(s.job.prompt_tokens + s.emitted for s in self._running)

    @property
    def waiting_prompt_tokens(self) -> int:
        return sum(s.job.prompt_tokens for s in self._queue)

    @property
    def accept_length(self) -> float:
        """Mean tokens per sequence and step since the start; 1 before the first step."""
        return 1 + self.accepted / self.verified if self.verified else 1.0

    def submit(self, job: Job, now: float) -> Sequence:
        """Join the queue. Raises CannotFitError if the KV budget could never hold it."""
        rng = Random(f"{self._seed}/{self.shape.lane.value}/{self._submitted}")  # noqa: S311 - a simulation
        mean = self.shape.accept_p if job.accept_p is None else job.accept_p
        p = spread_p(mean, self._submitted, self._phase)
        sequence = Sequence(job, self._submitted, now, rng, p)
        if sequence.kv_reserved > self.shape.kv_tokens:
            raise CannotFitError(
                f"{sequence.kv_reserved} tokens of prompt and output; "
                f"the lane has {self.shape.kv_tokens}"
            )
        self._submitted += 1
        self._set_thresholds(sequence)
        sequence.accepted_histogram = [0] * (self.shape.draft_steps + 1)
        self._queue.append(sequence)
        return sequence

    def abort(self, sequence: Sequence) -> bool:
        """Leave at once, queued or running. False if it had left already."""
        if sequence.place is Place.QUEUED:
            self._queue.remove(sequence)
        elif sequence.place is Place.RUNNING:
            self._running.remove(sequence)
            self._kv_reserved -= sequence.kv_reserved
        else:
            return False
        sequence.place = Place.ABORTED
        return True

    def set_accept_factor(self, factor: float) -> None:
        """Scale every accept length, those of sequences in flight included."""
        self._accept_factor = factor
        for sequence in (*self._queue, *self._running):
            self._set_thresholds(sequence)

    def begin(self) -> float | None:
        """Start the next operation; its cost in seconds on an idle pool, or None if there is none.

        The caller ends it with `finish` before it begins another.
        """
        if self.frozen:
            return None
        self._admit()
        if self._in_operation:
            self._prefilling = True
            work_s = sum(self.shape.prompt_s(s.job.prompt_tokens) for s in self._in_operation)
        elif self._running:
            self._prefilling = False
            self._in_operation = list(self._running)
            work_s = self.shape.step_s(len(self._running))
        else:
            return None
        return work_s * self.slow_factor

    def finish(self) -> Done:
        """End the operation that `begin` started: hand out its tokens."""
        members, self._in_operation = self._in_operation, []
        progress: list[Progress] = []
        tokens = accepted = left = 0
        drafting = not self._prefilling and self.shape.draft_steps > 0
        for sequence in members:
            if sequence.place is not Place.RUNNING:
                continue  # aborted while the operation ran
            count = 1
            if drafting:
                draw = sequence.rng.random()
                for threshold in sequence.thresholds:
                    if draw >= threshold:
                        break
                    count += 1
                accepted += count - 1
                sequence.verified_steps += 1
                sequence.accepted_drafts += count - 1
                sequence.accepted_histogram[count - 1] += 1
                self.verified += 1
            # Tokens accepted beyond the last wanted one count as accepted and are thrown away.
            count = min(count, sequence.job.output_tokens - sequence.emitted)
            sequence.emitted += count
            tokens += count
            finished = sequence.emitted == sequence.job.output_tokens
            if finished:
                sequence.place = Place.FINISHED
                self._kv_reserved -= sequence.kv_reserved
                left += 1
            progress.append(Progress(sequence, count, finished))
        running_before = len(self._running) - (len(progress) if self._prefilling else 0)
        if left:
            self._running = [s for s in self._running if s.place is Place.RUNNING]
        self.steps += not self._prefilling
        self.tokens += tokens
        self.accepted += accepted
        return Done(self._prefilling, len(members), running_before, tokens, accepted, progress)

    def _admit(self) -> None:
        while self._queue and len(self._running) < self.shape.cap:
            head = self._queue[0]
            if self._kv_reserved + head.kv_reserved > self.shape.kv_tokens:
                return
            self._queue.popleft()
            head.place = Place.RUNNING
            self._kv_reserved += head.kv_reserved
            self._running.append(head)
            self._in_operation.append(head)

    def _set_thresholds(self, sequence: Sequence) -> None:
        steps = self.shape.draft_steps
        sequence.thresholds = thresholds(scale_p(sequence.p, steps, self._accept_factor), steps)

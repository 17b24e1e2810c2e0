"""Whole experiments on the pool with no clock and no sockets: minutes of traffic in milliseconds.

closed_loop(profile, {Lane.PLAIN: 30}, requests=120)    so many streams held in flight
open_loop(profile, arrivals, choose)                    arrivals at given times, each sent
                                                        to the lane that `choose` names
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from specgate.core.lanes import Lane
from specgate.sim.model import Job, LaneModel, Sequence
from specgate.sim.pool import Pool
from specgate.sim.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One finished sequence, in simulated seconds from the start."""

    lane: Lane
    sent_at: float
    first_token_at: float
    ended_at: float
    prompt_tokens: int
    output_tokens: int
    accept_length: float

    @property
    def ttft_s(self) -> float:
        return self.first_token_at - self.sent_at

    @property
    def e2e_s(self) -> float:
        return self.ended_at - self.sent_at

    @property
    def tpot_s(self) -> float:
        """Seconds per token after the first; 0 for a single token."""
        return (self.ended_at - self.first_token_at) / max(1, self.output_tokens - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """A lane's measured window: all of its output tokens over its length, warm-up left out."""

    tok_s: float
    window_s: float
    records: tuple[Record, ...]

    @property
    def mean_e2e_s(self) -> float:
        return fmean(record.e2e_s for record in self.records)

    @property
    def mean_ttft_s(self) -> float:
        return fmean(record.ttft_s for record in self.records)

    @property
    def accept_length(self) -> float:
        return fmean(record.accept_length for record in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request of an open loop, `at` seconds from the start."""

    at: float
    prompt_tokens: int
    output_tokens: int
    accept_p: float | None = None


Choose = Callable[[float, Mapping[Lane, int]], Lane]


def closed_loop(
    profile: Profile,
    concurrency: Mapping[Lane, int],
    *,
    requests: int,
    warm_up: int | None = None,
    max_tokens: int = 512,
    prompt_tokens: int = 128,
    accept_p: float | None = None,
    seed: int = 0,
    kappa: float = 0.0,
) -> dict[Lane, LoopResult]:
    """Hold `concurrency[lane]` sequences in flight until each lane has finished `requests` more
    than its warm-up (by default, one for each stream). Lanes with 0 stay idle.
    """
    pool = Pool((LaneModel(shape, seed=seed) for shape in profile.lanes.values()), kappa=kappa)
    job = Job(
        prompt_tokens=prompt_tokens,
        output_tokens=max_tokens,
        reserve_tokens=max_tokens,
        accept_p=accept_p,
    )
    loops = {
        lane: _Loop(streams if warm_up is None else warm_up, requests)
        for lane, streams in concurrency.items()
        if streams > 0
    }
    first: dict[Sequence, float] = {}
    for lane in loops:
        for _ in range(concurrency[lane]):
            pool.submit(lane, job, 0.0)
    while not all(loop.complete for loop in loops.values()):
        at = pool.next_at
        if at is None:
            raise RuntimeError("every lane is idle in a closed loop")
        for ended in pool.advance(at):
            loop = loops[ended.lane]
            for sequence, _, finished in ended.done.progress:
                first.setdefault(sequence, ended.at)
                if finished:
                    loop.finished.append(_record(ended.lane, sequence, first, ended.at))
                    pool.submit(ended.lane, job, ended.at)
            loop.note(ended.at, ended.done.tokens)
    return {lane: loop.result() for lane, loop in loops.items()}


def open_loop(
    profile: Profile,
    arrivals: Iterable[Arrival],
    choose: Choose,
    *,
    seed: int = 0,
    kappa: float = 0.0,
) -> list[Record]:
    """Send each arrival (ascending times) to `choose(now, in_flight by lane)`, to the last end.

    `in_flight` does not count the arriving request. The records are in order of ending.
    """
    pool = Pool((LaneModel(shape, seed=seed) for shape in profile.lanes.values()), kappa=kappa)
    in_flight = dict.fromkeys(profile.lanes, 0)
    first: dict[Sequence, float] = {}
    records: list[Record] = []

    def advance(to: float) -> None:
        for ended in pool.advance(to):
            for sequence, _, finished in ended.done.progress:
                first.setdefault(sequence, ended.at)
                if finished:
                    in_flight[ended.lane] -= 1
                    records.append(_record(ended.lane, sequence, first, ended.at))

    for arrival in arrivals:
        advance(arrival.at)
        lane = choose(arrival.at, dict(in_flight))
        in_flight[lane] += 1
        job = Job(
            prompt_tokens=arrival.prompt_tokens,
            output_tokens=arrival.output_tokens,
            reserve_tokens=arrival.output_tokens,
            accept_p=arrival.accept_p,
        )
        pool.submit(lane, job, arrival.at)
    while (at := pool.next_at) is not None:
        advance(at)
    return records


class _Loop:
    """One lane's warm-up and window. The window begins when the warm-up's last request ends and
    ends with the last of `requests`, so both ends lie at the same phase of a batch in lock-step.
    """

    def __init__(self, warm_up: int, requests: int) -> None:
        self.finished: list[Record] = []
        self._warm_up = warm_up
        self._wanted = warm_up + requests
        self._began_at: float | None = None if warm_up else 0.0
        self._ended_at: float | None = None
        self._skip = 0
        self._tokens = 0

    @property
    def complete(self) -> bool:
        return self._ended_at is not None

    def note(self, at: float, tokens: int) -> None:
        """After each of the lane's operations: count it in, open or close the window."""
        if self._ended_at is not None:
            return
        if self._began_at is not None:
            self._tokens += tokens
            if len(self.finished) >= self._wanted:
                self._ended_at = at
        elif len(self.finished) >= self._warm_up:
            self._began_at = at
            self._skip = len(self.finished)
            self._wanted = self._skip + self._wanted - self._warm_up

    def result(self) -> LoopResult:
        if self._began_at is None or self._ended_at is None:
            raise RuntimeError("the window is still open")
        window_s = self._ended_at - self._began_at
        return LoopResult(
            tok_s=self._tokens / window_s,
            window_s=window_s,
            records=tuple(self.finished[self._skip : self._wanted]),
        )


def _record(lane: Lane, sequence: Sequence, first: dict[Sequence, float], at: float) -> Record:
    return Record(
        lane=lane,
        sent_at=sequence.submitted_at,
        first_token_at=first.pop(sequence),
        ended_at=at,
        prompt_tokens=sequence.job.prompt_tokens,
        output_tokens=sequence.emitted,
        accept_length=sequence.accept_length,
    )

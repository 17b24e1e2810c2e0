"""What the control surface says and takes, as JSON."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from specgate.admin.recorded import (
    THRESHOLD,
    Ahead,
    Recent,
    Switch,
    ThresholdText,
    threshold_text,
    time_of_day,
)
from specgate.core.alternation import AlternationView, Step
from specgate.core.config import Placement
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.meter import Bounds
from specgate.core.outlook import outlook
from specgate.core.policy import MEANINGS, Mode, Reason
from specgate.core.switchback import Experiment
from specgate.core.view import GateView
from specgate.telemetry.history import History
from specgate.telemetry.switches import Switches

SHOWN_SWITCHES = 5
"""Of the last switches, so many are in the status."""


class InFlight(BaseModel):
    """Sequences in flight, and the age of the oldest request."""

    total: int
    spec: int
    plain: int
    oldest_s: float | None = Field(description="Seconds; null when nothing is in flight.")


class LaneStatus(BaseModel):
    """One lane."""

    url: str
    health: Health
    draining: bool = Field(description="An operator wants it to get nothing new.")
    asleep: bool = Field(description="The pool holds the other lane now; its health is not known.")
    in_hand: int = Field(description="Requests it has in hand, those that are no load included.")
    engine: str = Field(description="sglang, vllm, llamacpp or unknown.")


class Turns(BaseModel):
    """The lanes in turn, on a pool that holds one of them."""

    awake: Lane | None = Field(description="It serves; null: neither lane is known to.")
    wanted: Lane = Field(description="The lane that is to be awake.")
    step: Step | None = Field(description="Of a change that is under way; null: there is none.")
    failed: Step | None = Field(
        description="The step that failed last, since the last change that did not; null: none."
    )
    why: str | None = Field(description="Its lane, and why it failed.")
    retry_s: float | None = Field(description="Seconds until that is tried again.")
    alternations: int = Field(description="Changes since the start.")

    @classmethod
    def of(cls, view: AlternationView) -> "Turns":
        return cls(
            awake=view.awake,
            wanted=view.wanted,
            step=view.step,
            failed=view.failed,
            why=view.why,
            retry_s=None if view.retry_s is None else round(view.retry_s, 1),
            alternations=view.alternations,
        )


class AcceptLength(BaseModel):
    """Tokens that a decode step of the spec lane yields a sequence."""

    live: float = Field(description="Of recent requests; while nothing is seen, back to `bench`.")
    standard_error: float = Field(description="Of `live`.")
    bench: float = Field(description="In the measurement.")
    age_s: float | None = Field(
        description="Seconds since something was learnt from the engine; null: never yet."
    )
    break_even: float = Field(description="At which speculation would just pay at this load.")
    followed: bool = Field(description="Whether it moves what the gate weighs.")


class Gained(BaseModel):
    """Seconds of mean latency gained over serving everything from one lane, reckoned by the
    profile from what was offered; negative: lost. low, high: by the profile's intervals."""

    low_s: float | None
    mean_s: float
    high_s: float | None

    @classmethod
    def of(cls, bounds: Bounds, sequences: int) -> "Gained":
        each = max(1, sequences)
        low, high = (
            None if bound is None else round(bound / each, 6) for bound in (bounds.low, bounds.high)
        )
        return cls(low_s=low, mean_s=round(bounds.middle / each, 6), high_s=high)


class SwitchbackStatus(BaseModel):
    """The experiment on live traffic: the plain side's pace over the spec side's, at low load."""

    pairs: int = Field(description="Pairs of blocks that were measured whole.")
    faster: float | None = Field(description="Above 1 where speculation is faster.")
    low: float | None = Field(description="Of its 90 % interval; null: before two pairs.")
    high: float | None
    expected: float | None = Field(description="What the profile says at that load.")
    spent_s: float = Field(description="On the side that the policy would not have chosen.")
    running: bool = Field(description="A pair of blocks is under way.")

    @classmethod
    def of(cls, found: Experiment) -> "SwitchbackStatus":
        return cls(**{name: _rounded(value) for name, value in found._asdict().items()})


class Weighing(BaseModel):
    """What the gate weighs with a profile; rates in output tokens a second."""

    pays: list[list[float | None]] = Field(
        description="The loads between which speculation pays; null: to any load."
    )
    regret: float = Field(
        description="What staying costs, as a share of a switch's price: what was missed so far, "
        "towards the lane that carries more also what will be if the load stays; with nothing in "
        "flight the share of the wait. At 1 the side changes."
    )
    offered_tok_s: float = Field(description="What is asked of both lanes together.")
    spec_top_tok_s: float = Field(description="The most that the spec lane can give.")
    switches_last_hour: int
    against_plain: Gained
    against_spec: Gained
    sequences: int = Field(description="That came while it was weighed.")
    prompt_tokens: float | None = Field(
        description="Of recent prompts, on the mean, by which the curves are chosen; null: the "
        "profile has one length, or engines tell none."
    )
    experiment: SwitchbackStatus | None = Field(
        description="What blocks at low load measured; null: none are tried."
    )


class Status(BaseModel):
    """The gate at this moment. Loads are in sequences."""

    at: datetime = Field(description="The gate's clock: ISO 8601, UTC.")
    mode: Mode
    placement: Placement = Field(
        description="Where the lanes run: one pool of GPUs, GPUs of their own, or by turns."
    )
    side: Lane = Field(description="The side that the next request is on.")
    reason: Reason = Field(description="Why it is on that side, at the last decision.")
    why: str = Field(description="The reason in words.")
    shadow: Lane | None = Field(
        description="Everything goes to this lane, and the side is for show; null: no shadow."
    )
    ahead: Ahead
    threshold: ThresholdText | None = Field(description="null: nothing was measured.")
    speculate_below: float | None = Field(description="null: there is no such edge.")
    plain_above: float | None = Field(description="null: there is no such edge.")
    load: float = Field(description="What the policy compares.")
    smoothed: float
    in_flight: InFlight
    queued: int = Field(description="Requests that wait for room; in no other count.")
    beyond: int = Field(
        description="Sequences that engines have in hand besides `in_flight`; part of `load`."
    )
    lanes: dict[Lane, LaneStatus]
    turns: Turns | None = Field(description="null: the pool holds both lanes.")
    recent: dict[Lane, Recent]
    switches: int = Field(description="So many since the start.")
    since_switch_s: float | None = Field(description="Seconds; null: there was none.")
    last_switches: list[Switch] = Field(description="A few, the newest first.")
    weighing: Weighing | None = Field(description="null: there is no profile to weigh by.")
    accept_length: AcceptLength | None = Field(
        description="null: there is no profile that says which it was measured with."
    )
    version: str

    @classmethod
    def of(
        cls, view: GateView, *, at: float, version: str, history: History, switches: Switches
    ) -> "Status":
        """at: the time of day, seconds since the epoch."""
        policy = view.policy
        return cls(
            at=time_of_day(at),
            mode=view.mode,
            placement=policy.placement,
            side=view.side,
            reason=view.reason,
            why=MEANINGS[view.reason],
            shadow=policy.shadow,
            ahead=Ahead.of(outlook(view)),
            threshold=threshold_text(policy.threshold),
            speculate_below=_finite(policy.speculate_below),
            plain_above=_finite(policy.plain_above),
            load=view.load,
            smoothed=view.smoothed,
            in_flight=InFlight(
                total=view.counts.total,
                spec=view.counts.spec,
                plain=view.counts.plain,
                oldest_s=view.oldest_s,
            ),
            queued=view.queued,
            beyond=view.beyond.total,
            lanes={
                lane: LaneStatus(
                    url=seen.url,
                    health=seen.health,
                    draining=seen.draining,
                    asleep=seen.asleep,
                    in_hand=seen.carried,
                    engine=seen.engine,
                )
                for lane, seen in view.lanes.items()
            },
            turns=None if view.alternation is None else Turns.of(view.alternation),
            recent={lane: Recent.of(history.recent(lane)) for lane in Lane},
            switches=view.switches,
            since_switch_s=view.since_switch_s,
            last_switches=[Switch.of(each) for each in switches.latest(SHOWN_SWITCHES)],
            weighing=_weighing(view),
            accept_length=_accept_length(view),
            version=version,
        )


class Ready(BaseModel):
    """Whether a lane serves."""

    ready: bool
    stopping: bool = Field(description="The gate serves on, and is about to stop.")
    lanes: dict[Lane, Health]


class Alive(BaseModel):
    """The process answers."""

    alive: Literal[True] = True


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid")


_THRESHOLD_SCHEMA = {
    "description": f"Speculate strictly below this load: {THRESHOLD.allowed}.",
    "anyOf": [{"type": "number", "minimum": 0}, {"enum": ["never", "always"]}],
    "examples": [8],
}


class ThresholdChange(_Change):
    """`{"threshold": 8}`, or `"never"`, or `"always"`."""

    threshold: Annotated[float, THRESHOLD, WithJsonSchema(_THRESHOLD_SCHEMA)]


class ModeChange(_Change):
    """`{"mode": "auto"}`, or `"spec"` or `"plain"` to force a side."""

    mode: Mode


class Reloaded(BaseModel):
    """What a reload changed. Settings that need a restart are named and left as they are."""

    changed: list[str]
    needs_restart: list[str]
    warnings: list[str]


class ErrorBody(BaseModel):
    """OpenAI's error shape."""

    error: dict[str, Any]


def _weighing(view: GateView) -> Weighing | None:
    curves, weighed, gain = view.curves, view.weighed, view.gain
    if curves is None or weighed is None or gain is None:
        return None
    return Weighing(
        pays=[[round(low, 6), _finite(high)] for low, high in curves.paying],
        regret=round(weighed.regret, 6),
        offered_tok_s=round(weighed.offered, 3),
        spec_top_tok_s=weighed.top,
        switches_last_hour=weighed.lately,
        against_plain=Gained.of(gain.against_plain, gain.sequences),
        against_spec=Gained.of(gain.against_spec, gain.sequences),
        sequences=gain.sequences,
        prompt_tokens=_rounded(view.prompt_tokens),
        experiment=None if view.experiment is None else SwitchbackStatus.of(view.experiment),
    )


def _accept_length(view: GateView) -> AcceptLength | None:
    accept = view.accept
    if accept is None:
        return None
    return AcceptLength(
        live=round(accept.live, 3),
        standard_error=round(accept.standard_error, 3),
        bench=round(accept.bench, 3),
        age_s=None if accept.age_s is None else round(accept.age_s, 3),
        break_even=round(accept.break_even, 3),
        followed=view.policy.adaptive,
    )


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _finite(edge: float | None) -> float | None:
    """To the millionth, where binary fractions of a percentage end."""
    return None if edge is None or edge == float("inf") else round(edge, 6)

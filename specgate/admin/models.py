"""What the control surface says and takes, as JSON."""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.meter import Bounds
from specgate.core.policy import Mode, Reason
from specgate.core.view import GateView
from specgate.settings import kind_of

THRESHOLD = kind_of("threshold")
ThresholdText = float | Literal["never", "always"]


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
    engine: str = Field(description="sglang, vllm, llamacpp or unknown.")


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


class Weighing(BaseModel):
    """What the gate weighs with a profile; rates in output tokens a second."""

    pays: list[list[float | None]] = Field(
        description="The loads between which speculation pays; null: to any load."
    )
    regret: float = Field(description="What staying has cost, as a share of a switch's price.")
    offered_tok_s: float = Field(description="What is asked of both lanes together.")
    spec_top_tok_s: float = Field(description="The most that the spec lane can give.")
    switches_last_hour: int
    against_plain: Gained
    against_spec: Gained
    sequences: int = Field(description="That came while it was weighed.")


class Status(BaseModel):
    """The gate at this moment. Loads are in sequences."""

    mode: Mode
    side: Lane = Field(description="The side that the next request is on.")
    reason: Reason = Field(description="Why it is on that side, at the last decision.")
    threshold: ThresholdText | None = Field(description="null: nothing was measured.")
    speculate_below: float | None = Field(description="null: there is no such edge.")
    plain_above: float | None = Field(description="null: there is no such edge.")
    load: float = Field(description="What the policy compares.")
    smoothed: float
    in_flight: InFlight
    beyond: int = Field(
        description="Sequences that engines have in hand besides `in_flight`; part of `load`."
    )
    lanes: dict[Lane, LaneStatus]
    switches: int
    since_switch_s: float | None
    weighing: Weighing | None = Field(description="null: there is no profile to weigh by.")
    accept_length: AcceptLength | None = Field(
        description="null: there is no profile that says which it was measured with."
    )
    version: str

    @classmethod
    def of(cls, view: GateView, version: str) -> "Status":
        policy = view.policy
        return cls(
            mode=view.mode,
            side=view.side,
            reason=view.reason,
            threshold=cast("ThresholdText | None", THRESHOLD.write(policy.threshold)),
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
            beyond=view.beyond.total,
            lanes={
                lane: LaneStatus(url=seen.url, health=seen.health, engine=seen.engine)
                for lane, seen in view.lanes.items()
            },
            switches=view.switches,
            since_switch_s=view.since_switch_s,
            weighing=_weighing(view),
            accept_length=_accept_length(view),
            version=version,
        )


class Ready(BaseModel):
    """Whether a lane serves."""

    ready: bool
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


def _finite(edge: float | None) -> float | None:
    """To the millionth, where binary fractions of a percentage end."""
    return None if edge is None or edge == float("inf") else round(edge, 6)

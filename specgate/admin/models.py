"""What the control surface says and takes, as JSON."""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from specgate.core.health import Health
from specgate.core.lanes import Lane
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
    lanes: dict[Lane, LaneStatus]
    switches: int
    since_switch_s: float | None
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
            lanes={
                lane: LaneStatus(url=seen.url, health=seen.health, engine=seen.engine)
                for lane, seen in view.lanes.items()
            },
            switches=view.switches,
            since_switch_s=view.since_switch_s,
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


def _finite(edge: float | None) -> float | None:
    """To the millionth, where binary fractions of a percentage end."""
    return None if edge is None or edge == float("inf") else round(edge, 6)

"""What the control surface says of the time behind it, as JSON: switches, history, the last half
minute. Times of day are ISO 8601 in UTC, or seconds since the epoch in the history's columns."""

from datetime import UTC, datetime
from typing import Literal, cast

from pydantic import BaseModel, Field

from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.outlook import Outlook
from specgate.core.policy import MEANINGS, Reason
from specgate.settings import kind_of
from specgate.telemetry import history, switches

THRESHOLD = kind_of("threshold")
ThresholdText = float | Literal["never", "always"]


def threshold_text(threshold: float | None) -> ThresholdText | None:
    """JSON has no infinity; and 0 and it have names."""
    return cast("ThresholdText | None", THRESHOLD.write(threshold))


def time_of_day(at: float) -> datetime:
    """From seconds since the epoch, to the millisecond."""
    return datetime.fromtimestamp(round(at, 3), UTC)


class Switch(BaseModel):
    """The gate changed side for new requests, and what it knew as it did. Loads in sequences."""

    number: int = Field(description="1 for the first since the start.")
    at: datetime = Field(description="ISO 8601, UTC.")
    was: Lane = Field(description="The side before.")
    side: Lane = Field(description="The side since.")
    reason: Reason
    why: str = Field(description="The reason in words.")
    count: int = Field(
        description="In flight at that moment, engines' others included, and the request that "
        "arrived, if one did."
    )
    load: float = Field(description="What the policy compared: the same, smoothed.")
    low: float | None = Field(description="Lower end of the band about the nearest edge.")
    high: float | None = Field(description="Its upper end; null: there was no edge.")
    threshold: ThresholdText | None = Field(description="null: nothing was measured.")
    accept_length: float | None = Field(description="Live; null: no profile says the bench's.")
    break_even: float | None = Field(
        description="Accept length at which speculation would just have paid at that load."
    )
    offered_tok_s: float | None = Field(
        description="Asked of both lanes together; null: there is no profile to weigh by."
    )

    @classmethod
    def of(cls, kept: switches.Switch) -> "Switch":
        return cls(
            number=kept.number,
            at=time_of_day(kept.at),
            was=kept.side.other,
            side=kept.side,
            reason=kept.reason,
            why=MEANINGS[kept.reason],
            count=kept.count,
            load=round(kept.load, 3),
            low=_rounded(kept.low),
            high=_rounded(kept.high),
            threshold=threshold_text(kept.threshold),
            accept_length=_rounded(kept.accept_length),
            break_even=_rounded(kept.break_even),
            offered_tok_s=_rounded(kept.offered_tok_s),
        )


class SwitchLog(BaseModel):
    """The last switches."""

    kept: int = Field(description="So many are kept at most.")
    since_start: int = Field(description="So many there were since the gate started.")
    switches: list[Switch] = Field(description="The newest first.")


class Recent(BaseModel):
    """A lane over the last half minute, generation requests only."""

    tok_s: float | None = Field(
        description="Output tokens a second, by the engine's own counter where it has one; else by "
        "the counts of the responses that ended. null: the gate has just started."
    )
    ttft_s: float | None = Field(description="Mean of the streams that ended; null: none did.")
    tpot_s: float | None = Field(
        description="Mean of the streams that ended and whose count is known; null: none did."
    )
    ended: int = Field(description="Requests that ended, however they did.")
    errors: int = Field(description="Failures of the lane that requests met.")

    @classmethod
    def of(cls, seen: history.Recent) -> "Recent":
        return cls(
            tok_s=_rounded(seen.tok_s),
            ttft_s=_rounded(seen.ttft_s, 6),
            tpot_s=_rounded(seen.tpot_s, 6),
            ended=seen.ended,
            errors=seen.errors,
        )


class Ahead(BaseModel):
    """How far the gate is from changing side. Loads in sequences."""

    low: float | None = Field(
        description="Lower end of the band that is nearest to the load. Without a profile it is "
        "`speculate_below`. With one: about a load at which the better lane changes, the interval "
        "where the measurement leaves open which is better; the load itself if there is none."
    )
    high: float | None = Field(description="Its upper end; both null: there is no edge.")
    away: float | None = Field(
        description="What the load must change by until the side may change, negative: fall. null: "
        "the load is not what is waited for."
    )
    words: str = Field(description='The same in words, to be read after "the gate".')

    @classmethod
    def of(cls, seen: Outlook) -> "Ahead":
        return cls(
            low=_rounded(seen.low, 6),
            high=_rounded(seen.high, 6),
            away=_rounded(seen.away),
            words=seen.words,
        )


class LaneColumns(BaseModel):
    """A lane's columns of the history; each as long as `at`."""

    in_flight: list[int] = Field(description="Sequences.")
    health: list[Health]
    tok_s: list[float | None] = Field(
        description="Output tokens a second since the point before, by the engine's own counter "
        "where it has one; else by the counts of the responses that ended."
    )
    ttft_s: list[float | None] = Field(
        description="Mean over the streams that ended since the point before; null: none did."
    )
    tpot_s: list[float | None] = Field(
        description="Seconds per output token after the first: mean over the streams that ended "
        "and whose count is known; null: none did."
    )
    ended: list[int] = Field(description="Generation requests that ended, however they did.")
    errors: list[int] = Field(
        description="Failures of the lane that requests met; a reroute may have saved the request."
    )


class History(BaseModel):
    """The last hour at most, in columns: the same place in each is the same moment, the oldest
    first."""

    every_s: float = Field(description="Seconds between two points.")
    now: float = Field(description="The gate's clock, seconds since the epoch.")
    at: list[float] = Field(description="Seconds since the epoch; the last one is for `since`.")
    side: list[Lane]
    reason: list[Reason]
    count: list[int] = Field(description="Sequences in flight, engines' others included.")
    queued: list[int] = Field(description="Requests that waited for room, in no count.")
    load: list[float] = Field(description="What the policy compares: `count`, smoothed.")
    low: list[float | None] = Field(description="Lower end of the band about the nearest edge.")
    high: list[float | None] = Field(description="Its upper end; null: there is no edge.")
    offered_tok_s: list[float | None] = Field(
        description="Asked of both lanes together; null: there is no profile to weigh by."
    )
    accept_length: list[float | None] = Field(
        description="Live; null: there is no profile that says the bench's."
    )
    break_even: list[float | None] = Field(
        description="Accept length at which speculation would just pay at that load."
    )
    lanes: dict[Lane, LaneColumns]


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)

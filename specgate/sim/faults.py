"""Faults that a test may switch on while the engine runs: one value, checked when it is read."""

from typing import Annotated, Any, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Factor = Annotated[float, msgspec.Meta(gt=0, le=1_000)]
Shown = float | Literal["NaN", "+Inf", "-Inf"] | None


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes wrong. The default is a healthy engine.

    status                answer generation with this status (400-599), and `body`, `retry_after_s`
    error_event_first     200, one SSE error event, [DONE]: a full queue, as SGLang says it
    first_byte_delay_s    wait so long (real seconds) before the response begins
    cut_after_chunks      close the socket after so many content chunks, no [DONE]
    stall_after_chunks    after so many content chunks send nothing more, keep the socket open
    garble                answer with bytes that are not HTTP, and close
    not_ready             /ready says 503
    health_hang_s         /health says 503, after so long (real seconds)
    slow_factor           every prefill and step takes so many times as long
    accept_length_factor  accept lengths times this, kept within 1 and K + 1
    metrics               families of /metrics, by their names without `sglang:` and `_total`, that
                          show this instead of their own value; with null they are not there
    loads                 fields of /v1/loads, in the same way
    unread                /metrics and /v1/loads are 404
    times                 only so many generation requests meet the first six; then they are over

    Of memory that is given back and taken again (`sim.memory`):

    busy_release_kills    to release it while it has requests ends the engine; else it answers 400
    asleep_request_kills  a request to one that was released and not paused ends it; else it hangs
    weights_lost          it answers nonsense after it was resumed, as without a backup in memory
    draft_lost            its accept length is stuck at 1 after it was resumed
    release_fails         to release it is answered 500
    resume_fails          to resume it is answered 500
    resume_s              to resume it takes so long (real seconds)
    no_pause              /pause_generation and /continue_generation are 404, as of an old version
    """

    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    body: Any = None
    retry_after_s: Count | None = None
    error_event_first: bool = False
    first_byte_delay_s: Seconds = 0.0
    cut_after_chunks: Count | None = None
    stall_after_chunks: Count | None = None
    garble: bool = False
    not_ready: bool = False
    health_hang_s: Seconds | None = None
    slow_factor: Factor = 1.0
    accept_length_factor: Factor = 1.0
    metrics: dict[str, Shown] = {}
    loads: dict[str, float | str | None] = {}
    unread: bool = False
    times: Count | None = None
    busy_release_kills: bool = False
    asleep_request_kills: bool = False
    weights_lost: bool = False
    draft_lost: bool = False
    release_fails: bool = False
    resume_fails: bool = False
    resume_s: Seconds = 0.0
    no_pause: bool = False

    def __post_init__(self) -> None:
        if self.status is None and (self.body is not None or self.retry_after_s is not None):
            raise ValueError("body and retry_after_s need a status")

    @property
    def spoils_requests(self) -> bool:
        """Whether any of the faults that `times` limits is on."""
        return (
            self.status is not None
            or self.error_event_first
            or self.first_byte_delay_s > 0
            or self.cut_after_chunks is not None
            or self.stall_after_chunks is not None
            or self.garble
        )

    def counted_off(self) -> "Faults":
        """The same faults with one request less to come."""
        return msgspec.structs.replace(self, times=None if self.times is None else self.times - 1)


class FaultsError(ValueError):
    """The JSON is none, or a field is unknown or out of range; the message names it."""


def read_faults(body: bytes) -> Faults:
    try:
        return msgspec.json.decode(body, type=Faults)
    except msgspec.DecodeError as exc:
        raise FaultsError(str(exc)) from exc

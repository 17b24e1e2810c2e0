"""How much is let in at once, and how the gate stops."""

from typing import Annotated

from pydantic import BaseModel, Field

from specgate.settings.kinds import number
from specgate.settings.quantities import RELOAD, RESTART, SECONDS, SECONDS_OR_0, whole


class Admitting(BaseModel):
    """How much is let in at once, and how the gate stops."""

    max_in_flight: Annotated[
        int | None,
        number(
            "a whole number above 0, or off",
            lambda n: n.is_integer() and n > 0,
            words={"off": None},
        ),
    ] = Field(
        None,
        description="The most sequences in flight, both lanes together; `off` lets in whatever "
        "comes, and the engines queue it. What comes beyond it waits, or is answered 429. A "
        "request of more sequences than that goes alone.",
        json_schema_extra=RELOAD,
    )
    queue_size: Annotated[int, number("a whole number, 0 or more", whole)] = Field(
        0,
        description="How many requests may wait for room, first come first served; 0: none, what "
        "finds no room is answered 429 at once. Each holds up to PEEK_LIMIT bytes of its body.",
        json_schema_extra=RELOAD,
    )
    queue_timeout_s: Annotated[float, SECONDS] = Field(
        30.0,
        description="How long, in seconds, a request may wait for room; then it is answered 503.",
        json_schema_extra=RELOAD,
    )
    hold: Annotated[
        int | None,
        number("a whole number, 0 or more, or off", whole, words={"off": None}),
    ] = Field(
        None,
        description="On a shared pool, with a profile that has curves: after a switch new requests "
        "wait until the lane that was left has no more than so many sequences, or for one mean "
        "duration of a request. It shortens drains on pools that both lanes together slow down "
        "much, and costs a wait for the first token. `off` holds nothing.",
        json_schema_extra=RELOAD,
    )
    drain_settle_s: Annotated[float, SECONDS_OR_0] = Field(
        5.0,
        description="How long, in seconds, the gate serves on after it was told to stop, with "
        "`/readyz` already at 503: the time in which balancers take it out of their lists.",
        json_schema_extra=RESTART,
    )
    drain_timeout_s: Annotated[float, SECONDS_OR_0] = Field(
        120.0,
        description="How long, in seconds, streams may go on after that; what is left then is "
        "ended with an error. Kubernetes' termination grace must be longer than both together.",
        json_schema_extra=RESTART,
    )

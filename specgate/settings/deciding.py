"""What decides the side, and the lane of a request."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from specgate.core.config import ALWAYS, NEVER, Placement
from specgate.core.lanes import Lane
from specgate.settings.kinds import FLAG, PATH, choice, number
from specgate.settings.quantities import OFF_OR_SECONDS, RELOAD, RESTART, SECONDS_OR_0, whole

OF_A_THRESHOLD = ("band", "smoothing_s", "burst", "dwell_s")
"""What decides by a threshold alone: while a profile is weighed nothing compares it
(`core.policy`, 3w and 4w)."""
NOTHING_WEIGHED = "Does nothing while a profile is weighed, or with POOL=split."


class Deciding(BaseModel):
    """What decides the side, and the lane of a request."""

    threshold: Annotated[
        float | None,
        number(
            "a positive number, never or always",
            lambda n: n >= 0,
            words={"never": NEVER, "always": ALWAYS},
        ),
    ] = Field(
        None,
        description="The load in sequences, both lanes together, below which the gate "
        "speculates: the crossover you measured, as a real number. `never` (or 0) and `always` "
        "hold one side; unset means that nothing was measured, and the gate serves the plain lane. "
        "It wins over a profile: with it none is weighed.",
        json_schema_extra=RELOAD,
    )
    profile: Annotated[str | None, PATH] = Field(
        None,
        description="A profile, as `specgate bench` writes it. Where its curves cross it is "
        "weighed: the gate sets what a side costs against the price of a switch, and band, "
        "smoothing, burst and dwell do nothing. Else threshold and band are taken from it where "
        "they are not set themselves. A threshold that is set wins: nothing is weighed, and the "
        "profile's band, which belongs to its crossover, is not taken either.",
        json_schema_extra=RELOAD,
    )
    band: Annotated[float, number("a number from 0 to below 1", lambda n: 0 <= n < 1)] = Field(
        0.2,
        description="The width of the hysteresis band as a share of the threshold: the gate comes "
        "back to the spec side below threshold x (1 - band). Raise it if the gate switches to "
        "and fro, lower it if it stays plain for too long. " + NOTHING_WEIGHED,
        json_schema_extra=RELOAD,
    )
    smoothing_s: Annotated[float, SECONDS_OR_0] = Field(
        60.0,
        description="The time constant, in seconds, of the average that the threshold is compared "
        "with; 0 compares the bare count. Lower it if load moves in seconds rather than minutes. "
        "Decides nothing while a profile is weighed, which has a smoothing of its own, or with "
        "POOL=split.",
        json_schema_extra=RELOAD,
    )
    burst: Annotated[float, number("a number, 1 or more", lambda n: n >= 1)] = Field(
        2.0,
        description="The multiple of the threshold at which an instantaneous load leaves the spec "
        "side without waiting for the average. Lower it if bursts hurt before the gate moves. "
        + NOTHING_WEIGHED,
        json_schema_extra=RELOAD,
    )
    dwell_s: Annotated[float, SECONDS_OR_0] = Field(
        60.0,
        description="The least time, in seconds, after a switch before the gate comes back to the "
        "spec side; 0 for none. It never delays leaving that side. " + NOTHING_WEIGHED,
        json_schema_extra=RELOAD,
    )
    switches_per_h: Annotated[int, number("a whole number, 0 or more", whole)] = Field(
        12,
        description="With a profile that has curves to weigh: after so many switches within an "
        "hour the gate stays on the plain side until the first of them is an hour old.",
        json_schema_extra=RELOAD,
    )
    adaptive: Annotated[bool, FLAG] = Field(
        default=False,
        description="With a profile that has curves and an accept length: whether the gate follows "
        "the accept length that the spec lane's engine counts now. Prompts that speculate better "
        "or worse than those of the measurement then move the loads where speculation pays.",
        json_schema_extra=RELOAD,
    )
    switchback: Annotated[
        float | None,
        number(
            "a number above 0 and up to 0.1, or off", lambda n: 0 < n <= 0.1, words={"off": None}
        ),
    ] = Field(
        None,
        description="With a profile that has curves: the share of all time in which the gate may "
        "hold the side that it would not have chosen, in blocks at low load, to measure on live "
        "traffic how much faster one side is. `off` tries nothing.",
        json_schema_extra=RESTART,
    )
    pool: Annotated[Placement, choice("shared", "split", "alternate")] = Field(
        Placement.SHARED,
        description="`shared`: both lanes draw on one pool of GPUs, so that all new requests go to "
        "one side. `split`: each lane has GPUs of its own; the spec lane takes requests up to the "
        "threshold in its own count, and what overflows goes to the plain one. `alternate`: the "
        "pool holds one lane at a time, and the lanes take turns; it needs a QUEUE_SIZE, and is "
        "taken on or left by a restart only.",
        json_schema_extra=RELOAD,
    )
    shadow: Annotated[Lane | None, choice("spec", "plain", off=True)] = Field(
        None,
        description="`spec` or `plain`: everything goes to that lane, while the gate decides, "
        "counts and explains what it would have done. The other lane's URL may then be left out: "
        "so one engine is enough to try it.",
        json_schema_extra=RELOAD,
    )
    rules: Annotated[bool, FLAG] = Field(
        default=True,
        description="Whether a request with a feature that the spec lane's engine refuses under "
        "speculation, or silently serves otherwise, goes to the plain lane. Which these are is in "
        "[Rules by request](rules.md).",
        json_schema_extra=RESTART,
    )
    forced_share: Annotated[
        float | None,
        number("a number above 0 and up to 1, or off", lambda n: 0 < n <= 1, words={"off": None}),
    ] = Field(
        0.3,
        description="The share of recent sequences that must go to the plain lane by rules above "
        "which the whole side is plain, on a shared pool: both lanes would run all the time and "
        "slow each other down. `off` lets them.",
        json_schema_extra=RESTART,
    )
    force_lane: Annotated[Literal["allow", "deny"], choice("allow", "deny")] = Field(
        "deny",
        description="Whether a client may name its lane in the header `x-specgate-lane`. Denied, "
        "the header is dropped and changes nothing: one client could else have both lanes run "
        "against each other.",
        json_schema_extra=RESTART,
    )
    engine_admin: Annotated[Literal["refuse", "both"], choice("refuse", "both")] = Field(
        "refuse",
        description="What becomes of calls that change an engine (flushing a cache, loading "
        "weights or adapters, sleeping, profiling): `refuse` answers 403, `both` sends them to "
        "both lanes and answers with the worse of the two. Never to one alone.",
        json_schema_extra=RESTART,
    )
    sticky_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        None,
        description="How long, in seconds after its last request, a conversation stays on the lane "
        "that served it, where its prefix is cached; `off` lets every request follow the side. "
        "It is known by `prompt_cache_key`, `session_id`, `x-session-id` or its first messages, "
        "of which a hash is kept.",
        json_schema_extra=RESTART,
    )

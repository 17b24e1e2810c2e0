"""What a chaos lane may do with a request, and how likely each is in the weather of the moment."""

import json
import random
from collections.abc import Mapping
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of a request at a lane."""

    SERVED = "served"
    LATE = "late"  # served, after a while without a byte
    SLOW = "slow"  # served, with pauses
    ERROR = "error"  # the engine's own 500

    # It takes no request now, and says so before it has worked on it
    NOT_READY = "not_ready"
    QUEUE_FULL = "queue_full"
    FULL_EVENT = "full_event"  # the same as the first event of a 200

    # It breaks before it answers
    RST_HEAD = "rst_head"  # with the body unread, as far as the lane looked
    RST_READ = "rst_read"
    FIN_READ = "fin_read"
    GARBLED = "garbled"  # no HTTP
    HANGS = "hangs"
    HANGS_UNREAD = "hangs_unread"  # and does not read the body for a while

    # It breaks in its answer
    CUT_RST = "cut_rst"
    CUT_FIN = "cut_fin"
    GARBLED_BODY = "garbled_body"
    STALLS = "stalls"


SERVES = frozenset({Fate.SERVED, Fate.LATE, Fate.SLOW})
DECLINES = frozenset({Fate.NOT_READY, Fate.QUEUE_FULL, Fate.FULL_EVENT})
HANGS = frozenset({Fate.HANGS, Fate.HANGS_UNREAD, Fate.STALLS})
BREAKS = frozenset(Fate) - SERVES - DECLINES - {Fate.ERROR}

ENDS_UNHEARD = frozenset({Fate.RST_HEAD, Fate.RST_READ, Fate.FIN_READ})
"""The connection ends with not one byte said, as an idle one does that the engine closes."""

RESETS_AT_ONCE = "resets_at_once"
CLOSES_QUIETLY = "closes_quietly"
"""Of connections and not of requests: one that is reset as it is accepted, and one that is closed
after an answer without a word."""

Weather = Mapping[str, float]
"""Of each fate, and of each of the two above: its probability."""

CLEAR: Weather = {Fate.LATE: 0.03, Fate.SLOW: 0.1}

_OFTEN: list[Weather] = [{fate: 0.5} for fate in Fate if fate not in SERVES | HANGS]
_SELDOM: list[Weather] = [{fate: 0.15} for fate in sorted(HANGS)]

STORMS: tuple[Weather, ...] = (
    *_OFTEN,
    *_SELDOM,
    {Fate.LATE: 0.5},
    {Fate.SLOW: 0.8},
    {RESETS_AT_ONCE: 0.5},
    {CLOSES_QUIETLY: 0.5},
    {fate: 0.04 for fate in Fate if fate not in SERVES},
)


def is_ready(weather: Weather) -> bool:
    """What the lane answers to probes: one that declines now and then is ready all the same."""
    return weather.get(Fate.NOT_READY, 0.0) < 0.2


def fate_of(weather: Weather, rng: random.Random) -> Fate:
    """One fate; what the weather leaves over is served."""
    drawn = rng.random()
    for fate in Fate:
        drawn -= weather.get(fate, 0.0)
        if drawn < 0:
            return fate
    return Fate.SERVED


def refusal(fate: Fate, marker: str) -> tuple[int, bytes, bytes]:
    """Status, content type and body of an answer that is an error, as engines word it."""
    if fate is Fate.FULL_EVENT:
        error = {"message": f"The request queue is full. {marker}", "code": 503}
        body = b"data: " + json.dumps({"error": error}).encode() + b"\n\ndata: [DONE]\n\n"
        return 200, b"text/event-stream", body
    if fate is Fate.NOT_READY:
        error = {"message": f"Loading model {marker}", "type": "unavailable_error", "code": 503}
        return 503, b"application/json", json.dumps({"error": error}).encode()
    status, message = 500, "the engine broke"
    if fate is Fate.QUEUE_FULL:
        status, message = 503, "The request queue is full."
    flat = {"object": "error", "message": f"{message} {marker}", "code": status}
    return status, b"application/json", json.dumps(flat).encode()

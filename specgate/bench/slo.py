"""What a request must keep to be worth counting: limits on TTFT, TPOT and E2E.

SLO goodput is requests a second that kept all of them. (SmartSpec calls accepted tokens a second
goodput, which is something else.)

    slo("ttft=2s,tpot=50ms,e2e=30s")       with units, any of the three
    slo("ttft:2000 tpot:50 e2el:30000")    as vLLM's --goodput writes it, in milliseconds
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from specgate.bench.samples import Sample

_PART = re.compile(r"(?P<name>[a-z0-9]+)(?P<by>[=:])(?P<number>\d+(?:\.\d+)?)(?P<unit>[a-z]*)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_NAMES = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e": "e2e_s", "e2el": "e2e_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Limits in seconds, at least one; None where there is none."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def __str__(self) -> str:
        limits = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return ",".join(f"{name}={_time(s)}" for name, s in limits.items() if s is not None)

    @property
    def needs_stream(self) -> bool:
        return self.ttft_s is not None or self.tpot_s is not None

    def met_by(self, sample: Sample) -> bool:
        """Of a request that was streamed where that is needed. One token alone has no TPOT to
        keep."""
        pairs = (
            (self.ttft_s, sample.ttft_s),
            (self.tpot_s, sample.tpot_s),
            (self.e2e_s, sample.e2e_s),
        )
        return all(limit is None or took is None or took <= limit for limit, took in pairs)

    def goodput(self, samples: Iterable[Sample], window_s: float) -> float:
        """Requests a second that met it."""
        return sum(map(self.met_by, samples)) / window_s


def slo(text: str) -> Slo:
    """Raises ValueError, which says what is wrong."""
    limits: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        part = _PART.fullmatch(word)
        name = _NAMES.get(part["name"]) if part else None
        if part is None or name is None:
            raise ValueError(f"{word!r} is no limit, such as ttft=2s, tpot=50ms or e2e=30s")
        unit = part["unit"] or ("ms" if part["by"] == ":" else "")
        if unit not in _UNITS:
            raise ValueError(f"{word!r} has no unit that is known: ms, s or m")
        limit = float(part["number"]) * _UNITS[unit]
        if limit == 0.0:
            raise ValueError(f"{word!r} can be met by no request")
        if name in limits:
            raise ValueError(f"{word!r} is a second limit on the same time")
        limits[name] = limit
    if not limits:
        raise ValueError("it names no limit, such as ttft=2s, tpot=50ms or e2e=30s")
    return Slo(**limits)


def _time(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"

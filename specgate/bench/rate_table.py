"""The open loops of a profile as tables for a terminal: a row for each arm at each rate."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from specgate.bench.wording import OBJECTIVES, bounds, number
from specgate.core.profile import PLAIN, ArmRate, OpenLoop, Profile, Times


def rate_tables(profile: Profile) -> list[Table]:
    """One for each length that was measured."""
    return [rate_table(loop) for loop in profile.open_loop]


def rate_table(loop: OpenLoop) -> Table:
    """Times in seconds. The SLO's column is left out where there was none."""
    arms = [arm for rate in loop.rates for arm in rate.arms.values()]
    has_slo = any(arm.slo_goodput is not None for arm in arms)
    found = Table(title=_title(loop), title_justify="left", box=None, pad_edge=False)
    found.add_column("req/s", justify="right")
    found.add_column("arm")
    columns = ("in flight", "TTFT p50", "p90", "p99", "TPOT ms", "E2E p50", "p99")
    for column in (*columns, *(["SLO req/s"] if has_slo else [])):
        found.add_column(column, justify="right")
    compared = OBJECTIVES[loop.compared].removeprefix("1/")
    found.add_column(f"over {PLAIN} by {compared}", justify="right")
    for rate in loop.rates:
        # The plain arm last, as in the table by concurrency.
        for i, name in enumerate(sorted(rate.arms, key=lambda name: (name == PLAIN, name))):
            at = f"{rate.rate:g}" if i == 0 else ""
            found.add_row(at, name, *_cells(rate.arms[name], has_slo=has_slo))
    return found


def doubts(profile: Profile) -> Iterator[str]:
    """A line for each arm that cannot carry a rate, and for each cell that does not count."""
    for loop in profile.open_loop:
        for rate in loop.rates:
            for name, arm in rate.arms.items():
                if arm.saturated is not None:
                    yield f"{name} cannot carry {rate.rate:g}/s: {arm.saturated}"
        yield from (f"alarm: {alarm}" for alarm in loop.alarms)


def _cells(arm: ArmRate, *, has_slo: bool) -> tuple[str | Text, ...]:
    if arm.saturated is not None:
        return (Text("saturated", style="red"),)
    tpot_ms = None if arm.tpot_s is None else arm.tpot_s.mean * 1000.0
    ratio = number(arm.ratio) if arm.ratio is not None else ""
    if arm.ratio_interval is not None:
        ratio += f"  ({bounds(arm.ratio_interval)})"
    return (
        number(arm.in_flight),
        *_percentiles(arm.ttft_s, "p50", "p90", "p99"),
        number(tpot_ms),
        *_percentiles(arm.e2e_s, "p50", "p99"),
        *([number(arm.slo_goodput)] if has_slo else []),
        ratio,
    )


def _percentiles(times: Times | None, *names: str) -> list[str]:
    return [number(None if times is None else getattr(times, name)) for name in names]


def _title(loop: OpenLoop) -> str:
    lengths = ["open loop"]
    if loop.context is not None:
        lengths.append(f"{loop.context} prompt tokens")
    if loop.max_tokens is not None:
        lengths.append(f"{loop.max_tokens} output tokens")
    return ", ".join(lengths)

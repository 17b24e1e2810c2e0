"""What `specgate status` draws: a gate's status as one page."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specgate.admin.models import Gained, LaneStatus, Status
from specgate.core.health import Health
from specgate.core.lanes import Lane

COLOUR = {Lane.SPEC: "green", Lane.PLAIN: "cyan"}
HEALTH = {Health.HEALTHY: "", Health.PROBING: "yellow", Health.EJECTED: "bold red"}
BAR_MAX = 60
WIDE = 100
"""Columns from which on an engine's address has room beside its figures."""


def page(status: Status, url: str, width: int, trouble: str = "") -> RenderableType:
    """`width`: columns. `trouble`: why it is not of now."""
    parts: list[RenderableType] = [_head(status, url)]
    if trouble:
        parts.append(_told(trouble, style="bold red"))
    parts += [Text(), _facts(status, width), Text(), _lanes(status, wide=width >= WIDE)]
    if width < WIDE:
        parts.append(_engines(status))
    if status.last_switches:
        parts += [Text(), _switches(status)]
    return Group(*parts)


def _head(status: Status, url: str) -> Text:
    mode = "" if status.mode == "auto" else f"   mode {status.mode}"
    return _told(f"specgate {status.version} at {url}   {_clock(status)}{mode}", style="bold")


def _facts(status: Status, width: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("side", _side(status))
    table.add_row("next", _told(f"the gate {status.ahead.words}"))
    bar = min(BAR_MAX, max(10, width - 40))
    table.add_row("load", _load(status, bar))
    if status.weighing is not None and status.mode == "auto" and status.placement != "split":
        table.add_row("price", _price(status.weighing.regret, status.side.other, bar))
    table.add_row("in flight", Text(_in_flight(status)))
    if status.accept_length is not None:
        table.add_row("accept length", _accept_length(status))
    if status.weighing is not None:
        table.add_row("gained", _gained(status))
    return table


def _side(status: Status) -> Text:
    text = Text()
    text.append(status.side, style=f"bold {COLOUR[status.side]}")
    text.append_text(_told(f" ({status.reason}): {status.why}"))
    if status.shadow is not None:
        text.append(f"; in shadow, everything goes to {status.shadow}", style="yellow")
    elif (trouble := _trouble(status)) is not None:
        text.append(f"; {trouble}", style="bold red")
    return text


def _trouble(status: Status) -> str | None:
    """Why the side's lane does not serve, None where it does."""
    other = status.side.other
    if status.lanes[status.side].asleep:
        return _sleeps(status, other)
    if status.lanes[status.side].draining:
        return f"its lane is being drained: {other} serves"
    if status.lanes[status.side].health is not Health.EJECTED:
        return None
    if status.lanes[other].health is Health.EJECTED:
        return "both lanes are ejected"
    return f"its lane is ejected: {other} serves"


def _sleeps(status: Status, other: Lane) -> str:
    """Of a side whose lane sleeps: what serves, and what became of waking it."""
    turns = status.turns
    if turns is None:
        return "its lane sleeps"
    if turns.step is not None:
        return f"its lane is being woken ({turns.step})"
    if turns.awake is None:
        return "its lane sleeps, and no other serves"
    failed = f"; {turns.failed} failed last, {turns.why}" if turns.failed is not None else ""
    return f"its lane sleeps: {other} serves{failed}"


def _load(status: Status, width: int) -> Text:
    """A bar from 0, with a mark at each end of the band."""
    low, high = status.ahead.low, status.ahead.high
    text = Text(f"{status.load:.2f}  ")
    if low is None or high is None:
        return text
    top = max(high * 1.5, status.load * 1.1)
    cells = ["-"] * width
    cells[: round(status.load / top * width)] = "=" * round(status.load / top * width)
    for edge in (low, high):
        cells[min(width - 1, int(edge / top * width))] = "|"
    styles = {"|": "bold", "=": COLOUR[status.side], "-": "dim"}
    for cell, run in groupby(cells):
        text.append("".join(run), style=styles[cell])
    return text.append(f"  {'edge' if low == high else 'band'} {_band(low, high)}")


def _price(share: float, other: Lane, width: int) -> Text:
    """A bar of what staying costs; full, a switch is worth it."""
    paid = round(min(1.0, share) * width)
    text = Text(f"{share:.0%}  ")
    text.append("=" * paid, style=COLOUR[other])
    text.append("-" * (width - paid), style="dim")
    return text.append(f"  of a switch to {other}")


def _band(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "-"
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _in_flight(status: Status) -> str:
    parts = [f"{status.in_flight.total} sequences"]
    if status.in_flight.oldest_s is not None:
        parts.append(f"the oldest for {status.in_flight.oldest_s:.1f} s")
    if status.beyond:
        parts.append(f"{status.beyond} more that the engines have from others")
    if status.queued:
        parts.append(f"{status.queued} requests wait for room")
    return ", ".join(parts)


def _accept_length(status: Status) -> Text:
    found = status.accept_length
    assert found is not None
    pays = found.live >= found.break_even
    text = Text(f"{found.live:.2f} ± {found.standard_error:.2f}, ")
    text.append("at or above" if pays else "below", style="green" if pays else "yellow")
    text.append(f" the break-even of {found.break_even:.2f}; bench {found.bench:.2f}; ")
    learnt = "nothing learnt yet" if found.age_s is None else f"learnt {found.age_s:.0f} s ago"
    return text.append(learnt if found.followed else f"{learnt}, not followed")


def _gained(status: Status) -> Text:
    weighing = status.weighing
    assert weighing is not None
    if not weighing.sequences:
        return Text("nothing came yet")
    return Text(
        f"{_seconds(weighing.against_plain)} against all plain, "
        f"{_seconds(weighing.against_spec)} against all spec: mean latency, over "
        f"{weighing.sequences} sequences, reckoned by the profile"
    )


def _seconds(gained: Gained) -> str:
    middle = f"{gained.mean_s:+.3f} s"
    if gained.low_s is None or gained.high_s is None:
        return f"{middle} (no interval)"
    return f"{middle} ({gained.low_s:+.3f} to {gained.high_s:+.3f})"


def _lanes(status: Status, *, wide: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("lane", no_wrap=True)
    table.add_column("health", no_wrap=True)
    for name in ("in flight", "tok/s", "TTFT", "TPOT", "ended", "errors"):
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        table.add_column("engine", overflow="fold")
    for lane in Lane:
        told, recent = status.lanes[lane], status.recent[lane]
        serves = lane is status.side
        table.add_row(
            Text(lane, style=f"bold {COLOUR[lane]}" if serves else ""),
            _health(told),
            f"{status.in_flight.spec if lane is Lane.SPEC else status.in_flight.plain}",
            "-" if recent.tok_s is None else f"{recent.tok_s:.0f}",
            "-" if recent.ttft_s is None else f"{recent.ttft_s:.3f} s",
            "-" if recent.tpot_s is None else f"{recent.tpot_s * 1000:.1f} ms",
            f"{recent.ended}",
            Text(f"{recent.errors}", style="bold red" if recent.errors else ""),
            *([_told(f"{told.engine} {told.url}")] if wide else []),
        )
    return table


def _engines(status: Status) -> Table:
    """Below the lanes, where the terminal is narrow."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for lane, told in status.lanes.items():
        table.add_row(lane, _told(f"{told.engine} {told.url}"))
    return table


def _health(told: LaneStatus) -> Text:
    if told.asleep:
        return Text("asleep", style="dim")  # of its health nothing is known
    if told.draining:
        return Text(f"{told.health}, draining", style=HEALTH[told.health] or "yellow")
    return Text(told.health, style=HEALTH[told.health])


def _switches(status: Status) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    of = f"last of {status.switches} switches"
    for name in (of, "to", "reason", "load", "count", "band", "accept length"):
        table.add_column(name, no_wrap=True)
    for switch in status.last_switches:
        accept = "-"
        if switch.accept_length is not None:
            accept = f"{switch.accept_length:.2f} / {switch.break_even:.2f}"
        table.add_row(
            f"{switch.at.astimezone():%H:%M:%S}",
            Text(switch.side, style=COLOUR[switch.side]),
            Text(switch.reason),
            f"{switch.load:.2f}",
            f"{switch.count}",
            _band(switch.low, switch.high),
            accept,
        )
    return table


def _told(text: str, style: str = "") -> Text:
    """What came from elsewhere: no character of it moves the cursor or sets a title."""
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return Text(shown, style=style)


def _clock(status: Status) -> str:
    return f"{status.at.astimezone():%H:%M:%S}"

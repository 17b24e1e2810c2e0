"""The parts of docs/explanation/policy.md that come from the code: the moves, and the example."""

from pathlib import Path

from specgate.control.admission import Admission
from specgate.control.gate import Gate
from specgate.core.config import PolicyConfig
from specgate.core.hysteresis import MOVES
from specgate.core.lanes import Lane
from specgate.core.routes import RouteClass
from specgate.ledger.local import LocalLedger
from specgate.upstream.base import Origin
from tests.docs.markdown import code, table

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "policy.md"

CONFIG = PolicyConfig(threshold=8.0)
STORY: tuple[tuple[float, int, str], ...] = (
    (0, 3, "3 requests are in flight"),
    (60, 7, "load rises to 7"),
    (180, 10, "load rises to 10"),
    (240, 10, "a minute later"),
    (300, 5, "load falls to 5"),
    (330, 5, "half a minute later"),
    (390, 5, "a minute later"),
    (420, 17, "a burst of 17"),
    (425, 2, "the burst is over"),
    (450, 2, "25 seconds later"),
    (480, 2, "half a minute later"),
)
"""When (s), how many are in flight from then on, and how a person would say it."""


def policy_page() -> str:
    """The page as it is, with its generated parts as the code says them now."""
    text = PAGE.read_text(encoding="utf-8")
    text = _replaced(text, "moves", _moves())
    return _replaced(text, "example", _example())


def _replaced(text: str, part: str, with_this: str) -> str:
    before, begin, rest = text.partition(f"<!-- generated: {part} -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    assert begin, f"{PAGE.name} has no part {part}"
    assert end, f"the part {part} of {PAGE.name} has no end"
    return f"{before}{begin}\n{with_this}\n\n{end}{after}"


def _moves() -> str:
    """A picture of core.hysteresis.MOVES, and the same as a table."""

    def zones(side: Lane, to: Lane) -> str:
        return ", ".join(zone for zone, moved in MOVES[side].items() if moved is to)

    spec, plain = Lane.SPEC, Lane.PLAIN
    stays = [f"stays: {zones(side, side)}" for side in (spec, plain)]
    there, back = zones(spec, plain), zones(plain, spec)
    picture = "\n".join(
        [
            "```text",
            f"  {stays[0]:^22}                      {stays[1]:^22}".rstrip(),
            "  +--------------------+                      +--------------------+",
            f"  |                    |--{there:-^18}->|                    |",
            f"  |{spec:^20}|                      |{plain:^20}|",
            f"  |                    |<-{back:-^18}--|                    |",
            "  +--------------------+                      +--------------------+",
            "```",
        ]
    )
    zones_named = list(MOVES[spec])
    rows = [(f"`{side}`", *(code(MOVES[side][zone]) for zone in zones_named)) for side in MOVES]
    return f"{picture}\n\n{table(('side', *zones_named), rows)}"


def _example() -> str:
    """STORY, told by a real gate on a clock that stands where the story is."""
    now = 0.0
    gate = Gate(
        policy=CONFIG,
        origins={lane: Origin.of(lane, f"http://{lane}.example") for lane in Lane},
        ledger=LocalLedger(),
        observe=lambda event: None,
        clock=lambda: now,
    )
    in_flight: list[Admission] = []
    rows = []
    for at, count, said in STORY:
        while now < at:  # the gate ticks between requests
            now = min(at, now + 0.25)
            gate.tick()
        while len(in_flight) > count:
            gate.leave(in_flight.pop(0))
        while len(in_flight) < count:
            in_flight.append(gate.admit(RouteClass.CHAT, 1))
        gate.tick()
        view = gate.view()
        rows.append(
            (
                f"{at:g}",
                said,
                f"{view.counts.total}",
                f"{view.load:.1f}",
                view.side,
                f"`{view.reason}`",
                f"{view.switches}",
            )
        )
    return table(("at, s", "what happens", "in flight", "load", "side", "reason", "switches"), rows)

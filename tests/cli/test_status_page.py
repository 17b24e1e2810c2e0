"""The page of `specgate status` for gates in less common states."""

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from specgate.admin.models import Status
from specgate.cli.status_page import page
from specgate.core.alternation import AlternationView, Step
from specgate.core.config import Placement, PolicyConfig
from specgate.core.curves import Curve, Curves
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.core.meter import Bounds, Gain
from specgate.core.policy import Mode, Reason
from specgate.core.view import AcceptView, GateView
from specgate.telemetry.history import History
from specgate.telemetry.switches import Switches
from tests.support.views import IDLE, a_view

NOTHING = Bounds(None, 0.0, None)
CURVES = Curves(spec=Curve((1.0, 16.0), (200.0, 900.0)), plain=Curve((1.0, 16.0), (100.0, 1500.0)))


def status_of(view: GateView) -> Status:
    history = History(view=lambda: view, engines=dict, clock=lambda: 0.0, wall=lambda: 0.0)
    switches = Switches(view=lambda: view, wall=lambda: 0.0, tell=lambda _: None)
    return Status.of(view, at=1.8e9, version="1", history=history, switches=switches)


def drawn(status: Status, *, width: int = 100, trouble: str = "") -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(page(status, "http://gate:8400", width, trouble))
    file = console.file
    assert isinstance(file, io.StringIO)
    return " ".join(file.getvalue().split())


def lane(lane: Lane, **changed: Any) -> dict[Lane, Any]:
    return {**IDLE.lanes, lane: replace(IDLE.lanes[lane], **changed)}


def test_a_lane_that_cannot_serve_is_said_beside_the_side():
    ejected = a_view(lanes=lane(Lane.SPEC, health=Health.EJECTED))
    assert "its lane is ejected: plain serves" in drawn(status_of(ejected))
    both = {each: replace(IDLE.lanes[each], health=Health.EJECTED) for each in Lane}
    assert "both lanes are ejected" in drawn(status_of(a_view(lanes=both)))
    drains = drawn(status_of(a_view(lanes=lane(Lane.SPEC, draining=True))))
    assert "its lane is being drained: plain serves" in drains
    assert "healthy, draining" in drains
    other = drawn(status_of(a_view(lanes=lane(Lane.PLAIN, health=Health.EJECTED))))
    assert "serves" not in other


def test_lanes_in_turn_are_said():
    lanes = lane(Lane.SPEC, asleep=True, health=Health.PROBING)
    turns = AlternationView(awake=Lane.PLAIN, wanted=Lane.SPEC)
    serves = drawn(status_of(a_view(lanes=lanes, alternation=turns)))
    assert "its lane sleeps: plain serves" in serves
    assert "spec asleep" in serves
    failed = replace(turns, failed=Step.WAKE, why="spec: not done within 120 s", retry_s=30.0)
    said = drawn(status_of(a_view(lanes=lanes, alternation=failed)), width=200)
    assert "plain serves; wake failed last, spec: not done within 120 s" in said
    changing = replace(turns, awake=None, step=Step.CHECK)
    assert "being woken (check)" in drawn(status_of(a_view(lanes=lanes, alternation=changing)))
    neither = replace(turns, awake=None)
    assert "no other serves" in drawn(status_of(a_view(lanes=lanes, alternation=neither)))


def test_a_shadow_and_a_forced_mode_are_said():
    shadow = a_view(policy=PolicyConfig(threshold=8.0, shadow=Lane.PLAIN))
    assert "in shadow, everything goes to plain" in drawn(status_of(shadow))
    forced = drawn(status_of(a_view(mode=Mode.SPEC, reason=Reason.FORCED)))
    assert "mode spec" in forced
    assert "mode" not in drawn(status_of(IDLE))


def test_with_a_profile_it_shows_accept_length_and_what_was_gained():
    accept = AcceptView(live=2.1, standard_error=0.1, bench=3.0, age_s=4.0, break_even=2.4)
    against_plain = Bounds(10.0, 20.0, 30.0)
    gain = Gain(against_plain, Bounds(None, -4.0, None), sequences=10, over_s=60.0)
    text = drawn(status_of(a_view(curves=CURVES, load=4.0, accept=accept, gain=gain)))
    assert "2.10 ± 0.10, below the break-even of 2.40; bench 3.00" in text
    assert "+2.000 s (+1.000 to +3.000) against all plain" in text
    assert "-0.400 s (no interval) against all spec" in text
    assert "over 10 sequences" in text
    fine = replace(accept, live=2.5)
    assert "at or above the break-even" in drawn(status_of(a_view(accept=fine)))


def test_what_is_weighed_has_a_bar_to_the_price_of_a_switch():
    weighed = a_view(curves=CURVES, load=4.0, gain=Gain(NOTHING, NOTHING, 0, 0.0))
    assert weighed.weighed is not None
    at = replace(weighed, weighed=weighed.weighed._replace(regret=0.25))
    assert f"price 25% {'=' * 15}{'-' * 45} of a switch to plain" in drawn(status_of(at))
    beyond = replace(at, side=Lane.PLAIN, weighed=weighed.weighed._replace(regret=3.0))
    assert f"price 300% {'=' * 60} of a switch to spec" in drawn(status_of(beyond))
    # Where it does not decide there is none.
    split = replace(at, policy=replace(at.policy, placement=Placement.SPLIT))
    for other in (replace(at, mode=Mode.SPEC), split, a_view(load=4.0)):
        assert "price" not in drawn(status_of(other))


def test_without_a_threshold_there_is_no_bar():
    text = drawn(status_of(a_view(policy=PolicyConfig(), side=Lane.PLAIN, load=3.0)))
    assert "load 3.00 in flight" in text
    assert "nothing was measured" in text


def test_a_load_far_beyond_the_band_stays_within_the_line():
    console = Console(file=io.StringIO(), width=80)
    status = status_of(a_view(side=Lane.PLAIN, load=5000.0, in_flight=(0, 5000)))
    console.print(page(status, "http://gate:8400", 80))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    [bar] = [line for line in lines if line.startswith("load")]
    assert "|" in bar
    assert bar.rstrip().endswith("band 6 to 8")


def test_on_a_narrow_terminal_the_engines_stand_below_the_lanes():
    console = Console(file=io.StringIO(), width=70)
    told = lane(Lane.SPEC, url="http://engine.example.internal:30000")
    console.print(page(status_of(a_view(lanes=told)), "http://gate:8400", 70))
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert "spec   sglang http://engine.example.internal:30000" in lines
    assert not any(line.endswith("engine") for line in lines)


def test_what_a_gate_says_is_shown_and_never_obeyed():
    told = status_of(IDLE)
    hostile = told.model_copy(
        update={
            "version": "[red]1[/red]",
            "why": "\x1b]0;title\x07[bold]so[/bold]",
            "ahead": told.ahead.model_copy(update={"words": "[/] \x1b[31m"}),
        }
    )
    text = drawn(hostile, trouble="[link]no[/link]")
    assert not any(sign in text for sign in "\x1b\x07")
    for shown in ("[red]1[/red]", "[bold]so[/bold]", "[/]", "[link]no[/link]"):
        assert shown in text


def test_trouble_stands_above_what_is_old():
    text = drawn(status_of(IDLE), trouble="no gate answers; what follows is from 3 s ago")
    assert text.index("3 s ago") < text.index("side")

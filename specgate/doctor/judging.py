"""From facts to a report: all checks, on one engine or on two. No I/O."""

from collections.abc import Sequence
from dataclasses import replace

from specgate.core.config import Placement
from specgate.core.lanes import Lane
from specgate.core.profile import Profile
from specgate.doctor.against_profile import aim_of, check_profile
from specgate.doctor.facts import Facts, Severity
from specgate.doctor.one_engine import check_engine
from specgate.doctor.report import Report
from specgate.doctor.sleeping import SAVER_FLAG, check_sleeping
from specgate.doctor.two_lanes import check_lanes

Engines = Sequence[tuple[Facts, Lane | None]]


def judge(
    engines: Engines,
    profile: Profile | None,
    highest_level: int,
    pool: Placement = Placement.SHARED,
) -> Report:
    """`engines`: one or two, each with the lane that it was given as. `highest_level`: of a bench,
    where no profile says what to carry. `pool`: whether both are up at once, or take turns."""
    report = Report()
    in_turns = pool is Placement.ALTERNATE
    aim = aim_of(profile, highest_level)
    down = [facts for facts, _ in engines if facts.ready is not None and facts.ready.refuses]
    for facts, role in engines:
        # Of two that take turns one sleeps; one alone, or both, is another matter.
        sleeps = in_turns and len(engines) == 2 and down == [facts]
        check_engine(facts, role, aim, report, sleeps=sleeps)
        if in_turns:
            check_sleeping(facts, report)
    if len(engines) == 2:
        check_lanes(engines[0][0], engines[1][0], report, in_turns=in_turns)
    elif not in_turns:
        _room(engines, report)
    check_profile(profile, engines, report)
    report.settle()
    return report


def assigned(facts: Sequence[Facts]) -> Engines:
    """Engines that were given without saying which lane is which: where one of two speculates and
    the other does not, they are the lanes."""
    sides = [each.speculation.on.value if each.speculation.on else None for each in facts]
    if sorted(map(str, sides)) != ["False", "True"]:
        return [(each, None) for each in facts]
    lanes = [Lane.SPEC if side else Lane.PLAIN for side in sides]
    return [(replace(f, label=lane.value), lane) for f, lane in zip(facts, lanes, strict=True)]


def _room(engines: Engines, report: Report) -> None:
    """Of one engine alone: whether a second one could stand beside it."""
    for facts, _ in engines:
        weight, left = facts.memory.weight_gb, facts.memory.left_gb
        if facts.device == "cpu":
            continue
        if weight is None or left is None:
            report.unknown(
                facts,
                "whether a second lane fits beside it",
                "it does not tell what memory is left",
            )
        elif left < weight:
            report.find(
                Severity.NOTE,
                "room",
                facts,
                f"a second copy of the weights ({weight:.1f} GB a GPU) does not fit beside it: "
                f"about {max(left, 0):.1f} GB of its GPU are left",
                ["/server_info memory_usage: startup_available, less weight, kvcache and graph"],
                "give the other lane GPUs of its own, lower --mem-fraction-static here, or let the "
                f"lanes take turns (SPECGATE_POOL=alternate{_without_saver(facts)})",
            )


def _without_saver(facts: Facts) -> str:
    off = facts.memory.saver is not None and not facts.memory.saver.value
    return f": it needs {SAVER_FLAG}, which is off here" if off else ""

"""Settings that somebody gave and that do nothing beside the others."""

from collections.abc import Callable
from typing import NamedTuple

from specgate.core.config import Placement
from specgate.settings.deciding import OF_A_THRESHOLD
from specgate.settings.model import Settings, env_name

OF_A_SWITCH = ("switches_per_h", "switchback", "hold")
"""What applies where a profile is weighed and the whole side switches."""

OF_TURNS = (
    "alternate_dwell_s",
    "alternate_drain_s",
    "alternate_step_s",
    "spec_park",
    "spec_wake",
    "plain_park",
    "plain_wake",
)


class Unused(NamedTuple):
    """names: their variables. why: a sentence that ends with "these do nothing"."""

    names: tuple[str, ...]
    why: str


def unused(settings: Settings, is_given: Callable[[str], bool]) -> tuple[Unused, ...]:
    """is_given: whether somebody set it, in the environment or the file."""
    pool, weighed = settings.pool, settings.policy.curves is not None
    turns = pool is Placement.ALTERNATE
    split = pool is Placement.SPLIT
    told = (
        (
            split,
            (*OF_A_THRESHOLD, *OF_A_SWITCH, "forced_share"),
            f"with {env_name('pool')}=split each request is placed by the spec lane's own count, "
            "and no side changes: these do nothing",
        ),
        (
            weighed and not split,
            OF_A_THRESHOLD,
            f"{env_name('profile')} is weighed, and while it is these do nothing",
        ),
        (
            not weighed and not split,
            OF_A_SWITCH,
            "no profile is weighed, and while none is these do nothing",
        ),
        (
            weighed and turns,
            ("hold",),
            f"with {env_name('pool')}=alternate requests wait for each change anyway: these do "
            "nothing",
        ),
        (not turns, OF_TURNS, f"without {env_name('pool')}=alternate these do nothing"),
    )
    found = []
    for applies, names, why in told:
        given = tuple(env_name(name) for name in names if applies and is_given(name))
        if given:
            found.append(Unused(given, why))
    return tuple(found)

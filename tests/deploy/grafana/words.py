"""Closed sets in plain words and colours: what a reader sees in place of a label's value."""

from tests.deploy.grafana.parts import BAD, DULL, GOOD, PLAIN, SPEC, WARN, Mapped

SIDES = {"spec": Mapped("SPEC", SPEC), "plain": Mapped("PLAIN", PLAIN)}

REASONS = {
    "below_threshold": Mapped("load is below the threshold", SPEC),
    "in_band": Mapped("in the band: it stays", DULL),
    "above_threshold": Mapped("load is at the threshold or above", PLAIN),
    "burst": Mapped("a burst", PLAIN),
    "dwell": Mapped("low enough, but it has just switched", WARN),
    "pays": Mapped("speculation pays at this load", SPEC),
    "costs": Mapped("speculation costs at this load", PLAIN),
    "weighing": Mapped("the other would be better: not yet worth a switch", WARN),
    "over_capacity": Mapped("more is asked than spec can give", PLAIN),
    "switch_limit": Mapped("as many switches as allowed in an hour", WARN),
    "overflow": Mapped("spec has as much as pays", PLAIN),
    "never": Mapped("the threshold is never", PLAIN),
    "always": Mapped("the threshold is always", SPEC),
    "unmeasured": Mapped("nothing is measured yet", WARN),
    "forced": Mapped("an operator forced it", WARN),
    "forced_share": Mapped("rules send too much to plain", PLAIN),
    "switchback": Mapped("an experiment: the sides take turns", WARN),
    "shadow": Mapped("shadow", DULL),
    "lane_down": Mapped("the side's lane is down", BAD),
    "draining": Mapped("an operator drains a lane", WARN),
    "asleep": Mapped("the side's lane sleeps", WARN),
    "last_resort": Mapped("no lane is known to serve", BAD),
}
"""Those that can be a side's, and what may come close; others are of single requests."""

MODES = {
    "auto": Mapped("the policy", GOOD),
    "spec": Mapped("forced to spec", WARN),
    "plain": Mapped("forced to plain", WARN),
    "shadow spec": Mapped("for show: all goes to spec", "orange"),
    "shadow plain": Mapped("for show: all goes to plain", "orange"),
}

HEALTH = {
    ".* healthy": Mapped("", GOOD),
    ".* probing": Mapped("", WARN),
    ".* ejected": Mapped("", BAD),
}

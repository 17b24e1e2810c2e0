"""From a bench's folder to its profile: what was measured, with what it holds for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from specgate.bench.analyse import NoCellsError, analyse
from specgate.bench.faults import Misused
from specgate.bench.judging import Rules
from specgate.bench.rating import rated
from specgate.bench.record import ENVIRONMENT, PLAN, read_cells, read_rate_cells
from specgate.core.profile import (
    PLAIN,
    SINGLE_RUN,
    Engine,
    Fingerprint,
    Objective,
    Profile,
    Scalar,
    Verdict,
    dumps,
)
from specgate.core.shape import Shape

PROFILE = "profile.json"


def conclude(
    folder: Path, margin: float, objective: Objective = Objective.THROUGHPUT
) -> Profile | None:
    """Analyse all that the folder holds and write its profile.json; None if no cell counts.

    Raises Misused as `concluded` does.
    """
    profile = concluded(folder, margin, objective)
    if profile is None:
        return None
    part = folder / (PROFILE + ".part")
    part.write_text(dumps(profile), encoding="utf-8")
    part.replace(folder / PROFILE)
    return profile


def concluded(
    folder: Path, margin: float, objective: Objective = Objective.THROUGHPUT
) -> Profile | None:
    """The profile of all that the folder holds, whether its bench came to its end or not; None if
    no cell counts.

    Open loops stand beside; without a closed one the profile has them alone, and is inconclusive.
    Raises Misused where a cell lacks what the objective compares.
    """
    rules = Rules(margin=margin, objective=objective)
    told = fingerprint(folder)
    try:
        loops = rated(read_rate_cells(folder), rules)
        profile = _judged(folder, told, rules)
    except ValueError as error:
        raise Misused(f"--objective {objective}: {error}") from error
    if profile is None:
        if not any(loop.rates for loop in loops):
            return None
        nothing = Verdict(shape=Shape.INCONCLUSIVE, objective=objective, margin=margin)
        profile = Profile(verdict=nothing, levels=(), fingerprint=told)
    return replace(profile, open_loop=loops)


def _judged(folder: Path, told: Fingerprint, rules: Rules) -> Profile | None:
    """Of closed loops; None if no cell of one counts."""
    try:
        return analyse(read_cells(folder), fingerprint=told, rules=rules)
    except NoCellsError:
        return None


def undecided(profile: Profile) -> str | None:
    """Why a profile decides nothing yet, None if it does: in all lengths that were measured."""
    if not profile.levels:
        return "an open loop tells no crossover: measure with --concurrency into the same --out"
    arms = {name for level in profile.levels for name in level.arms}
    if PLAIN not in arms:
        return "there is no plain arm to hold the others against: measure it into the same --out"
    if arms == {PLAIN}:
        return "only the plain arm is measured: measure the other into the same --out"
    for curve in (profile, *profile.also):
        if curve.verdict.confidence == SINGLE_RUN:
            return "nothing was repeated: there is no interval"
        if curve.verdict.shape is Shape.INCONCLUSIVE:
            return "more repeats are needed: --resume goes on"
    return None


def fingerprint(folder: Path) -> Fingerprint:
    """What the engines said of themselves in the last run of each arm, and how it was measured."""
    runs = _json(folder / ENVIRONMENT).get("runs", [])
    arms: dict[str, dict[str, Any]] = {}
    for run in runs:
        arms |= run["arms"]
    plan = _json(folder / PLAN)
    models = [name for arm in arms.values() for name in arm.get("models", [])[:1]]
    last: dict[str, Any] = runs[-1] if runs else {}
    return Fingerprint(
        model=models[0] if models else None,
        measured_at=last.get("started_at"),
        specgate=last.get("specgate"),
        prompts=plan.get("prompts"),
        settings=_scalars(plan, but=("salt", "schema", "prompts")),
        engines={name: _engine(arm) for name, arm in arms.items()},
    )


def _engine(arm: dict[str, Any]) -> Engine:
    flags = _scalars(arm.get("flags", {}))
    steps = flags.get("speculative_num_steps")
    version = arm.get("version")
    return Engine(
        name=arm.get("engine"),
        version=None if version is None else str(version),
        steps=steps if isinstance(steps, int) else None,
        settings=flags,
    )


def _scalars(values: dict[str, Any], but: tuple[str, ...] = ()) -> dict[str, Scalar]:
    return {
        name: value
        for name, value in values.items()
        if name not in but and (value is None or isinstance(value, str | int | float | bool))
    }


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found

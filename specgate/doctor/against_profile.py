"""What a profile says about the engines that are up now: break-even accept lengths, and whether
they are the engines that were measured. Facts in, findings out.
"""

from collections.abc import Sequence

from specgate.core.lanes import Lane
from specgate.core.profile import Profile
from specgate.core.shape import Shape
from specgate.core.threshold import threshold_and_band
from specgate.doctor.facts import Aim, Facts, Severity
from specgate.doctor.report import Report

NOTE, WARNING = Severity.NOTE, Severity.WARNING


def aim_of(profile: Profile | None, default: int) -> Aim:
    """The load to carry. `default`: the bench's highest level, for want of a profile."""
    if profile is None or not profile.levels:
        return Aim(level=default, where="the bench's highest level", measured=False)
    top = float(profile.levels[-1].concurrency)
    threshold = threshold_and_band(profile).threshold
    if threshold is not None and top < threshold < float("inf"):
        return Aim(level=threshold, where="the profile's threshold", measured=True)
    return Aim(level=top, where="the profile's highest level", measured=True)


def check_profile(
    profile: Profile | None, engines: Sequence[tuple[Facts, Lane | None]], report: Report
) -> None:
    """Of the engine in the spec lane; without a profile, what can be said all the same."""
    spec = next((facts for facts, role in engines if _speculates(facts, role)), None)
    if profile is None:
        if spec is not None:
            report.unknown(spec, "its break-even accept length", _without(spec))
        return
    arm = profile.verdict.arm
    if arm is None:
        report.unknown("profile", "any break-even accept length", "it has no speculative arm")
        return
    _break_even(profile, arm, spec, report)
    if profile.verdict.shape is Shape.NEVER:
        report.find(
            NOTE,
            "never-pays",
            "profile",
            "speculation paid at no level that was measured: a gate serves the plain lane only",
            ["verdict.shape: never"],
            "run the plain engine alone, or measure other draft settings",
        )
    for facts, _ in engines:
        _same_model(profile, facts, report)
    if spec is not None:
        _same_steps(profile, arm, spec, report)


def _break_even(profile: Profile, arm: str, spec: Facts | None, report: Report) -> None:
    measured = profile.fingerprint.engines.get(arm)
    steps, where = (measured.steps, "the profile") if measured is not None else (None, "")
    if steps is None and spec is not None and spec.speculation.steps is not None:
        steps, where = spec.speculation.steps.value, str(spec.speculation.steps.where)
    lengths = {
        level.concurrency: length
        for level in profile.levels
        if arm in level.arms and (length := level.arms[arm].break_even_accept_length) is not None
    }
    if not lengths:
        report.unknown("profile", "its break-even accept lengths", "no accept length was measured")
        return
    listed = ", ".join(f"{length:.2f} at {level}" for level, length in lengths.items())
    if steps is None:
        report.unknown(
            "profile",
            "whether any prompt could make speculation pay",
            f"not told how many drafts a step accepts at most; break-even: {listed}",
        )
        return
    over = [level for level, length in lengths.items() if length > steps + 1]
    if over:
        levels = ", ".join(map(str, over))
        report.find(
            WARNING,
            "break-even",
            "profile",
            f"at {levels} in flight the break-even accept length is above {steps + 1}, the most "
            f"that {steps} draft steps can yield: no prompt makes speculation pay there",
            [f"break-even accept length: {listed}", f"draft steps, {where}: {steps}"],
            f"keep the threshold below {over[0]}, and measure draft settings that cost less a step",
        )


def _same_model(profile: Profile, facts: Facts, report: Report) -> None:
    measured = profile.fingerprint.model
    if measured is not None and facts.model is not None and measured != facts.model:
        report.find(
            WARNING,
            "profile-model",
            facts,
            "the profile is of another model, so its threshold says nothing about this one",
            [f"the profile's model: {measured}", f"/v1/models: {facts.model}"],
            "measure these engines, or give the profile that was",
        )


def _same_steps(profile: Profile, arm: str, spec: Facts, report: Report) -> None:
    measured = profile.fingerprint.engines.get(arm)
    steps = spec.speculation.steps
    if measured is None or measured.steps is None or steps is None:
        return
    if measured.steps != steps.value:
        report.find(
            WARNING,
            "profile-steps",
            spec,
            "the profile was measured with another number of draft steps",
            [f"the profile's: {measured.steps}", steps],
            "measure with the settings that you serve with",
        )


def _speculates(facts: Facts, role: Lane | None) -> bool:
    on = facts.speculation.on
    return role is not Lane.PLAIN and on is not None and bool(on.value)


def _without(spec: Facts) -> str:
    why = "it takes a measurement of both lanes (--profile)"
    steps = spec.speculation.steps
    if steps is None:
        return why
    return (
        f"{why}; all that can be said is that a step yields at most {steps.value + 1} tokens "
        f"({steps}, and the bonus token)"
    )

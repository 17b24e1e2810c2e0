"""The break-even accept length: at which accept length speculation would just pay at a load.

A step of the spec lane costs t_s and yields `a` tokens a sequence, one of the plain lane costs t_b
and yields one; so speculation pays where a > t_s / t_b. Measured at one load with accept length a,
X_s = B a / t_s and X_b = B / t_b, hence t_s / t_b = a X_b / X_s. It is a property of both engines
at that load and not of the prompts: over seven data sets on one setting it varied by 2 to 7 %.

Time that is spent on neither lane's steps, such as prefill, pulls the estimate towards `a`.
"""

from typing import NamedTuple


class BreakEven(NamedTuple):
    """The length, and what is wrong with it, if anything."""

    accept_length: float
    alarm: str | None


def break_even(
    accept_length: float, *, spec_tok_s: float, plain_tok_s: float, steps: int | None
) -> BreakEven:
    """From one measured level; `steps`: the most draft tokens that one step can accept, if known.

    Below 1 a verification step would be cheaper than a plain one, which cannot be: the plain arm
    is slower than it should be. Above steps + 1 no prompt can make speculation pay at that load.
    """
    length = accept_length * plain_tok_s / spec_tok_s
    alarm = None
    if length < 1.0:
        alarm = (
            f"break-even accept length {length:.2f} is below 1: a verification step cannot be "
            "cheaper than a plain one, so look at the plain engine's settings"
        )
    elif steps is not None and length > steps + 1:
        alarm = (
            f"break-even accept length {length:.2f} is above {steps + 1}, the most that "
            f"{steps} draft steps can yield: no prompts make speculation pay at this load"
        )
    return BreakEven(length, alarm)

"""What several settings share: their quantities, and when a change of them takes effect."""

from typing import Any

from specgate.settings.kinds import number

RELOAD: dict[str, Any] = {"reloadable": True}
RESTART: dict[str, Any] = {"reloadable": False}

SECONDS = number("a positive number of seconds", lambda n: n > 0)
SECONDS_OR_0 = number("a number of seconds, 0 or more", lambda n: n >= 0)
OFF_OR_SECONDS = number(
    "a positive number of seconds, or off", lambda n: n > 0, words={"off": None}
)
OFF_OR_BYTES = number(
    "a whole number of bytes above 0, or off",
    lambda n: n.is_integer() and n > 0,
    words={"off": None},
)


def whole(n: float) -> bool:
    """Whether it is a whole number, 0 or more."""
    return n.is_integer() and n >= 0

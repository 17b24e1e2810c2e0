"""Closed sets of words."""

from enum import StrEnum


class Label(StrEnum):
    """A word of a closed set: metric label, log field, key of a table.

    Its hash is the string's own. `Enum`'s is a function in Python, called at each look-up, and a
    request makes dozens of look-ups by lane, side and reason.
    """

    __hash__ = str.__hash__

"""Taking values out of decoded JSON that may hold anything: the kind asked for, or nothing."""

from typing import Any


def mapped(value: Any) -> dict[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def first_of(value: Any) -> dict[str, Any]:
    """The first object of a list; empty for anything else."""
    return mapped(value[0]) if isinstance(value, list) and value else {}


def number(value: Any) -> int | None:
    """A whole number; true and false are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def real(value: Any) -> float | None:
    """A number, or a text that is one."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def text(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None

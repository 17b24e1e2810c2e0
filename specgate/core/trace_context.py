"""The trace that a client's request is part of: the `traceparent` header of W3C Trace Context.

Source: https://www.w3.org/TR/trace-context/#traceparent-header. It is read and never written: the
header goes to the engines as it came.
"""

import re
from typing import NamedTuple

_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_SAMPLED = 0x01


class Parent(NamedTuple):
    """The client's span. `sampled`: whether it is recorded, as the client said."""

    trace_id: int
    span_id: int
    sampled: bool


def parent_of(traceparent: bytes | None) -> Parent | None:
    """What the header's value says; None where there is none, or none that is valid."""
    found = None if traceparent is None else _FORM.fullmatch(traceparent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Version 00 has four fields; a later one may have more, and ff is none.
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))
    return parent if parent.trace_id and parent.span_id else None

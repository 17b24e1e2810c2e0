"""What a `traceparent` says, and what is none."""

import pytest

from specgate.core.trace_context import Parent, parent_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def read(text: str) -> Parent | None:
    return parent_of(text.encode())


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("fe", False)])
def test_the_flags_say_whether_it_is_recorded(flags: str, sampled: bool):
    assert read(f"00-{TRACE}-{SPAN}-{flags}") == Parent(int(TRACE, 16), int(SPAN, 16), sampled)


def test_a_later_version_may_say_more():
    assert read(f"01-{TRACE}-{SPAN}-01-more") == read(f"00-{TRACE}-{SPAN}-01")
    assert read(f"cc-{TRACE}-{SPAN}-01") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"01-{TRACE}-{SPAN}-01more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{'g' * 32}-{SPAN}-01",
    ],
)
def test_what_is_no_valid_one_is_none(text: str):
    assert read(text) is None


def test_none_is_none():
    assert parent_of(None) is None

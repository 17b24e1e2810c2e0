"""A gate that is built and never served: the pages ask it what it has."""

from specgate.service import Service
from specgate.settings import load
from specgate.wiring import build

LANES = {
    "SPECGATE_SPEC_URL": "http://10.0.0.5:8000",
    "SPECGATE_PLAIN_URL": "http://10.0.0.5:8001",
}


def a_gate(**settings: str) -> Service:
    """With settings by their names in small letters, besides the lanes'."""
    named = {f"SPECGATE_{name.upper()}": value for name, value in settings.items()}
    return build(load({**LANES, **named}).settings)

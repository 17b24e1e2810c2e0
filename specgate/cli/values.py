"""Values that several commands take: finite numbers, engines' addresses, hosts, keys, names."""

import math
from typing import Any

import click

from specgate.settings.addresses import HOST, LANE_URL
from specgate.settings.kinds import SECRET, Kind


class Finite(click.FloatRange):
    """A number in a range; click lets nan through."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if number_of(str(value)) is None:
            self.fail(f"{value!r} is no number", param, ctx)
        return float(super().convert(value, param, ctx))


def number_of(text: str) -> float | None:
    """None for what is no finite number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class AsSetting(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """What a setting of that kind takes, refused in the same words."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self._kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            return str(self._kind.read(value))
        except ValueError as error:
            self.fail(f"{self._kind.show(value)} {error}", param, ctx)


class Name(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Text that can be sent: a shell passes on bytes that are none."""

    name = "name"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8 text", param, ctx)
        return str(value)


ENGINE_URL = AsSetting("url", LANE_URL)
LISTEN_HOST = AsSetting("host", HOST)
KEY = AsSetting("key", SECRET)
NAME = Name()

"""Settings that are right one by one, and not together, or not with what is installed."""

from collections.abc import Callable
from importlib import metadata

from specgate.core.config import Placement
from specgate.settings.extras import how_to_install
from specgate.settings.model import Settings, env_name

EXPORTER = "opentelemetry-exporter-otlp-proto-http"
"""What the extra `otel` brings."""


def is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def conflicts(settings: Settings, installed: Callable[[str], bool] = is_installed) -> list[str]:
    """A line for each, which names all that are in it."""
    return [*_not_installed(settings, installed), *_unreadable(settings), *_turns(settings)]


def _not_installed(settings: Settings, installed: Callable[[str], bool]) -> list[str]:
    if not settings.otel or installed(EXPORTER):
        return []
    return [
        f"{env_name('otel')}=true: needs the extra otel, which is not installed: "
        f"{how_to_install('otel')}"
    ]


def _unreadable(settings: Settings) -> list[str]:
    if settings.control_read == "open" or settings.admin_token is not None:
        return []
    return [
        f"{env_name('control_read')}=token: needs {env_name('admin_token')}, which is not set: "
        "nobody could read"
    ]


def _turns(settings: Settings) -> list[str]:
    if settings.pool is not Placement.ALTERNATE:
        return []
    found = []
    pool = f"{env_name('pool')}=alternate"
    if settings.queue_size == 0:
        found.append(
            f"{env_name('queue_size')}=0: must be above 0 with {pool}: requests wait in the queue "
            "while the lanes take turns"
        )
    if settings.spec_url == settings.plain_url:
        urls = f"{env_name('spec_url')} and {env_name('plain_url')}"
        found.append(f"{urls} are the same: with {pool} they must be two engines")
    return found


def advice_on_turns(settings: Settings) -> list[str]:
    """What is allowed on a pool that holds one lane, and hardly meant."""
    if settings.pool is not Placement.ALTERNATE:
        return []
    advice = []
    if settings.queue_timeout_s <= settings.alternate_drain_s:
        names = f"{env_name('queue_timeout_s')} is no longer than {env_name('alternate_drain_s')}"
        advice.append(f"{names}: who waits while the lanes take turns may be answered 503")
    for lane in ("spec", "plain"):
        park, wake = f"{lane}_park", f"{lane}_wake"
        if (getattr(settings, park) is None) != (getattr(settings, wake) is None):
            advice.append(
                f"{env_name(park)} and {env_name(wake)}: one is auto and the other a command, so "
                "that what the one does the other may not undo"
            )
    if settings.switchback is not None:
        advice.append(
            f"{env_name('switchback')}: with {env_name('pool')}=alternate each of its blocks may "
            "cost a drain"
        )
    return advice

"""Settings that are right one by one, and not together."""

from specgate.core.config import Placement
from specgate.settings.model import Settings, env_name


def conflicts(settings: Settings) -> list[str]:
    """A line for each, which names all that are in it."""
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

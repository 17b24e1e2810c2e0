"""Profiles for tests."""

from dataclasses import replace

from specgate.bench.shipped import shipped
from specgate.core.profile import Profile


def with_accept_length(name: str, accept_length: float | None) -> Profile:
    """A published table, as if its accept length had been measured too."""
    profile = shipped(name)
    levels = tuple(
        replace(
            level,
            arms={
                arm: replace(each, accept_length=accept_length if arm == "spec" else None)
                for arm, each in level.arms.items()
            },
        )
        for level in profile.levels
    )
    return replace(profile, levels=levels)

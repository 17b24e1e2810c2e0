"""Environment and file -> one frozen `Settings`, made of core's dataclasses."""

from specgate.settings.loading import Loaded, SettingsError, Source, load
from specgate.settings.model import Settings, env_name, kind_of, reloadable_names

__all__ = [
    "Loaded",
    "Settings",
    "SettingsError",
    "Source",
    "env_name",
    "kind_of",
    "load",
    "reloadable_names",
]

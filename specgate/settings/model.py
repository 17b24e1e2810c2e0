"""All settings, joined, and what the rooms below take of them.

Each one's type, default, meaning and time of effect stand in `where`, `deciding`, `carrying` and
`watching`. The descriptions are what `docs/reference/settings.md` prints.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import PrivateAttr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from specgate.core.config import PolicyConfig, ProxyConfig, TimeoutConfig
from specgate.core.curves import Curves
from specgate.core.rules import RulesConfig
from specgate.settings.carrying import Carrying
from specgate.settings.deciding import Deciding
from specgate.settings.kinds import Kind
from specgate.settings.watching import Watching
from specgate.settings.where import Where

PREFIX = "SPECGATE_"


# The last base's fields come first, on the page too.
class Settings(Watching, Carrying, Deciding, Where, BaseSettings):
    """The settings of one gate. Durations are in seconds; `load` makes one from the outside."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    # What the profile says of both lanes; `load` puts it in, and `policy` has it.
    _curves: Curves | None = PrivateAttr(default=None)

    def with_profile(self, values: Mapping[str, Any], curves: Curves | None) -> "Settings":
        """These settings, with what a profile says."""
        settings = self.model_copy(update=values)
        settings._curves = curves
        return settings

    @property
    def policy(self) -> PolicyConfig:
        return PolicyConfig(
            threshold=self.threshold,
            band=self.band,
            smoothing_s=self.smoothing_s,
            burst=self.burst,
            dwell_s=self.dwell_s,
            curves=self._curves,
            switches_per_h=self.switches_per_h,
            adaptive=self.adaptive,
            placement=self.pool,
            shadow=self.shadow,
        )

    @property
    def by_request(self) -> RulesConfig:
        return RulesConfig(
            features=self.rules, sticky_s=self.sticky_s, forced_share=self.forced_share
        )

    @property
    def timeouts(self) -> TimeoutConfig:
        return TimeoutConfig(
            connect_s=self.connect_timeout_s,
            first_byte_s=self.first_byte_timeout_s,
            idle_s=self.idle_timeout_s,
            send_s=self.send_timeout_s,
        )

    @property
    def proxy(self) -> ProxyConfig:
        return ProxyConfig(
            timeouts=self.timeouts,
            peek_limit=self.peek_limit,
            request_usage=self.request_usage,
            expose_headers=self.expose_headers,
            accel_buffering=self.accel_buffering,
            force_lane=self.force_lane == "allow",
            admin_to_both=self.engine_admin == "both",
            keep_conversations=self.sticky_s is not None,
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What it is called with, alone: `load` asks the other sources, and notes which spoke."""
        return (init_settings,)


def kind_of(name: str) -> Kind:
    """How the setting is written."""
    return next(item for item in Settings.model_fields[name].metadata if isinstance(item, Kind))


def env_name(name: str) -> str:
    return PREFIX + name.upper()


def reloadable_names() -> frozenset[str]:
    """The settings that a reload changes under traffic; the others need a restart."""
    return frozenset(
        name
        for name, field in Settings.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra["reloadable"]
    )

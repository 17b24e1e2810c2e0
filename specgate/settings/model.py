"""All settings, joined, and what the rooms below take of them.

Each one's type, default, meaning and time of effect stand in `where`, `deciding`, `admitting`,
`alternating`, `carrying`, `security` and `watching`. The descriptions are what
`docs/reference/settings.md` prints.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from pydantic import PrivateAttr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from specgate.core.config import (
    AdmissionConfig,
    AlternationConfig,
    Placement,
    PolicyConfig,
    ProxyConfig,
    TimeoutConfig,
)
from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.hold import Hold
from specgate.core.keys import KeyHashes
from specgate.core.lanes import Lane
from specgate.core.profile import Fingerprint
from specgate.core.rules import RulesConfig
from specgate.settings.admitting import Admitting
from specgate.settings.alternating import Alternating
from specgate.settings.carrying import Carrying
from specgate.settings.deciding import Deciding
from specgate.settings.kinds import Kind
from specgate.settings.security import Security
from specgate.settings.watching import Watching
from specgate.settings.where import Where

PREFIX = "SPECGATE_"


# The last base's fields come first, on the page too.
class Settings(Watching, Security, Carrying, Alternating, Admitting, Deciding, Where, BaseSettings):
    """The settings of one gate. Durations are in seconds; `load` makes one from the outside."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    # What the profile says of both lanes; `load` puts it in, and `policy` has it.
    _curves: Curves | None = PrivateAttr(default=None)
    _contexts: Contexts | None = PrivateAttr(default=None)
    _fingerprint: Fingerprint | None = PrivateAttr(default=None)

    # What API_KEYS_FILE holds; `load` puts it in, and `client_keys` has it.
    _file_keys: KeyHashes | None = PrivateAttr(default=None)

    def with_profile(
        self,
        values: Mapping[str, Any],
        curves: Curves | None,
        contexts: Contexts | None,
        fingerprint: Fingerprint | None,
    ) -> "Settings":
        """These settings, with what a profile says."""
        settings = self.model_copy(update=values)
        settings._curves = curves
        settings._contexts = contexts
        settings._fingerprint = fingerprint
        return settings

    def with_file_keys(self, keys: KeyHashes | None) -> "Settings":
        """These settings, with what the file of keys holds."""
        settings = self.model_copy()
        settings._file_keys = keys
        return settings

    def with_pool(self, pool: Placement) -> "Settings":
        """These settings, for another kind of pool."""
        return self.model_copy(update={"pool": pool})

    @property
    def file_keys(self) -> KeyHashes | None:
        """What API_KEYS_FILE holds."""
        return self._file_keys

    @property
    def client_keys(self) -> KeyHashes | None:
        """The keys of which clients must send one; None: they need none."""
        if self.api_keys is None or self._file_keys is None:
            return self.api_keys or self._file_keys
        return self.api_keys | self._file_keys

    def authorization(self, lane: Lane) -> bytes | None:
        """What a lane's engine is sent as `Authorization`; None: the client's own headers, empty:
        none of them. Of one engine in both lanes one key is enough."""
        spec, plain = self.spec_api_key, self.plain_api_key
        own, other = (spec, plain) if lane is Lane.SPEC else (plain, spec)
        key = own or (other if self.spec_url == self.plain_url else None)
        if key is not None:
            return b"Bearer " + key.get_secret_value().encode("ascii")
        return None if self.client_keys is None else b""

    @property
    def policy(self) -> PolicyConfig:
        return PolicyConfig(
            threshold=self.threshold,
            band=self.band,
            smoothing_s=self.smoothing_s,
            burst=self.burst,
            dwell_s=self.dwell_s,
            curves=self._curves,
            contexts=self._contexts,
            fingerprint=self._fingerprint,
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
    def admission(self) -> AdmissionConfig:
        return AdmissionConfig(
            max_in_flight=self.max_in_flight,
            queue_size=self.queue_size,
            queue_timeout_s=self.queue_timeout_s,
            hold=None if self.hold is None else Hold(self.hold),
        )

    @property
    def alternation(self) -> AlternationConfig | None:
        """None: the pool holds both lanes."""
        if self.pool is not Placement.ALTERNATE:
            return None
        park = {Lane.SPEC: self.spec_park, Lane.PLAIN: self.plain_park}
        wake = {Lane.SPEC: self.spec_wake, Lane.PLAIN: self.plain_wake}
        return AlternationConfig(
            dwell_s=self.alternate_dwell_s,
            drain_s=self.alternate_drain_s,
            step_s=self.alternate_step_s,
            park={lane: tuple(shlex.split(line)) for lane, line in park.items() if line},
            wake={lane: tuple(shlex.split(line)) for lane, line in wake.items() if line},
        )

    @property
    def read_token(self) -> str | None:
        """What reading the control surface asks for; None: nothing."""
        if self.control_read == "open" or self.admin_token is None:
            return None
        return self.admin_token.get_secret_value()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The gate's own keys, to be masked in what others write."""
        keys = (self.spec_api_key, self.plain_api_key, self.admin_token)
        return tuple(key.get_secret_value() for key in keys if key is not None)

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

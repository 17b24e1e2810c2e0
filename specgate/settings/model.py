"""Every setting there is: its type, its default, what it means, and when a change takes effect.

The descriptions are what `docs/reference/settings.md` prints.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from specgate.core.config import (
    ALWAYS,
    NEVER,
    Placement,
    PolicyConfig,
    ProxyConfig,
    TimeoutConfig,
)
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.core.rules import RulesConfig
from specgate.settings.addresses import HOST, LANE_URL
from specgate.settings.kinds import FLAG, PATH, SECRET, Kind, choice, number

PREFIX = "SPECGATE_"

RELOAD: dict[str, Any] = {"reloadable": True}
RESTART: dict[str, Any] = {"reloadable": False}

_OFF_OR_POSITIVE = number(
    "a positive number of seconds, or off", lambda n: n > 0, words={"off": None}
)
_OFF_OR_BYTES = number(
    "a whole number of bytes above 0, or off",
    lambda n: n.is_integer() and n > 0,
    words={"off": None},
)
_POSITIVE_S = number("a positive number of seconds", lambda n: n > 0)
_NOT_NEGATIVE_S = number("a number of seconds, 0 or more", lambda n: n >= 0)


def _whole(n: float) -> bool:
    return n.is_integer() and n >= 0


class Settings(BaseSettings):
    """The settings of one gate. Durations are in seconds; `load` makes one from the outside."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    spec_url: Annotated[str, LANE_URL] = Field(
        description="The engine that speculates: one URL, which may have a path prefix. "
        "Give the address below which `/v1/...` begins, so leave `/v1` out.",
        json_schema_extra=RELOAD,
    )
    plain_url: Annotated[str, LANE_URL] = Field(
        description="The engine that does not speculate: one URL of the same form, for the same "
        "model.",
        json_schema_extra=RELOAD,
    )
    host: Annotated[str, HOST] = Field(
        "127.0.0.1",
        description="The address to listen on; `0.0.0.0` or `::` listens on all of the machine's, "
        "which a container needs.",
        json_schema_extra=RESTART,
    )
    port: Annotated[
        int,
        number("a whole number from 0 to 65535", lambda n: n.is_integer() and 0 <= n <= 65535),
    ] = Field(
        8400,
        description="The TCP port to listen on; 0 takes any free one, which the log then names.",
        json_schema_extra=RESTART,
    )
    threshold: Annotated[
        float | None,
        number(
            "a positive number, never or always",
            lambda n: n >= 0,
            words={"never": NEVER, "always": ALWAYS},
        ),
    ] = Field(
        None,
        description="The load in sequences, both lanes together, below which the gate "
        "speculates: the crossover you measured, as a real number. `never` (or 0) and `always` "
        "hold one side; unset means that nothing was measured, and the gate serves the plain lane.",
        json_schema_extra=RELOAD,
    )
    profile: Annotated[str | None, PATH] = Field(
        None,
        description="A profile, as `specgate bench` writes it: threshold and band are taken from "
        "it where they are not set themselves. A threshold that is set wins, and then the "
        "profile's band, which belongs to its crossover, is not taken either.",
        json_schema_extra=RELOAD,
    )
    band: Annotated[float, number("a number from 0 to below 1", lambda n: 0 <= n < 1)] = Field(
        0.2,
        description="The width of the hysteresis band as a share of the threshold: the gate comes "
        "back to the spec side below threshold x (1 - band). Raise it if the gate switches to "
        "and fro, lower it if it stays plain for too long.",
        json_schema_extra=RELOAD,
    )
    smoothing_s: Annotated[float, _NOT_NEGATIVE_S] = Field(
        60.0,
        description="The time constant, in seconds, of the average that the threshold is compared "
        "with; 0 compares the bare count. Lower it if load moves in seconds rather than minutes.",
        json_schema_extra=RELOAD,
    )
    burst: Annotated[float, number("a number, 1 or more", lambda n: n >= 1)] = Field(
        2.0,
        description="The multiple of the threshold at which an instantaneous load leaves the spec "
        "side without waiting for the average. Lower it if bursts hurt before the gate moves.",
        json_schema_extra=RELOAD,
    )
    dwell_s: Annotated[float, _NOT_NEGATIVE_S] = Field(
        60.0,
        description="The least time, in seconds, after a switch before the gate comes back to the "
        "spec side; 0 for none. It never delays leaving that side.",
        json_schema_extra=RELOAD,
    )
    switches_per_h: Annotated[int, number("a whole number, 0 or more", _whole)] = Field(
        12,
        description="With a profile that has curves to weigh: after so many switches within an "
        "hour the gate stays on the plain side until the first of them is an hour old.",
        json_schema_extra=RELOAD,
    )
    adaptive: Annotated[bool, FLAG] = Field(
        default=False,
        description="With a profile that has curves and an accept length: whether the gate follows "
        "the accept length that the spec lane's engine counts now. Prompts that speculate better "
        "or worse than those of the measurement then move the loads where speculation pays.",
        json_schema_extra=RELOAD,
    )
    pool: Annotated[Placement, choice("shared", "split")] = Field(
        Placement.SHARED,
        description="`shared`: both lanes draw on one pool of GPUs, so that all new requests go to "
        "one side. `split`: each lane has GPUs of its own; the spec lane takes requests up to the "
        "threshold in its own count, and what overflows goes to the plain one.",
        json_schema_extra=RELOAD,
    )
    shadow: Annotated[Lane | None, choice("spec", "plain", off=True)] = Field(
        None,
        description="`spec` or `plain`: everything goes to that lane, while the gate decides, "
        "counts and explains what it would have done. The other lane's URL may then be left out: "
        "so one engine is enough to try it.",
        json_schema_extra=RELOAD,
    )
    rules: Annotated[bool, FLAG] = Field(
        default=True,
        description="Whether a request with a feature that the spec lane's engine refuses under "
        "speculation, or silently serves otherwise, goes to the plain lane. Which these are is in "
        "[Rules by request](rules.md).",
        json_schema_extra=RESTART,
    )
    forced_share: Annotated[
        float | None,
        number("a number above 0 and up to 1, or off", lambda n: 0 < n <= 1, words={"off": None}),
    ] = Field(
        0.3,
        description="The share of recent sequences that must go to the plain lane by rules above "
        "which the whole side is plain, on a shared pool: both lanes would run all the time and "
        "slow each other down. `off` lets them.",
        json_schema_extra=RESTART,
    )
    force_lane: Annotated[Literal["allow", "deny"], choice("allow", "deny")] = Field(
        "deny",
        description="Whether a client may name its lane in the header `x-specgate-lane`. Denied, "
        "the header is dropped and changes nothing: one client could else have both lanes run "
        "against each other.",
        json_schema_extra=RESTART,
    )
    engine_admin: Annotated[Literal["refuse", "both"], choice("refuse", "both")] = Field(
        "refuse",
        description="What becomes of calls that change an engine (flushing a cache, loading "
        "weights or adapters, sleeping, profiling): `refuse` answers 403, `both` sends them to "
        "both lanes and answers with the worse of the two. Never to one alone.",
        json_schema_extra=RESTART,
    )
    sticky_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        None,
        description="How long, in seconds after its last request, a conversation stays on the lane "
        "that served it, where its prefix is cached; `off` lets every request follow the side. "
        "It is known by `prompt_cache_key`, `session_id`, `x-session-id` or its first messages, "
        "of which a hash is kept.",
        json_schema_extra=RESTART,
    )
    connect_timeout_s: Annotated[float, _POSITIVE_S] = Field(
        5.0,
        description="How long, in seconds, a lane may take to accept a connection before the "
        "request goes to the other one. Raise it if the lanes are far away.",
        json_schema_extra=RESTART,
    )
    first_byte_timeout_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        None,
        description="How long, in seconds, from a request's last byte to the head of its "
        "response; `off` waits for ever, which long queues and long prompts need.",
        json_schema_extra=RESTART,
    )
    idle_timeout_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        None,
        description="How long, in seconds, between two pieces of a response; `off` waits for "
        "ever. Set it if engines hang in the middle of streams, above their longest pause.",
        json_schema_extra=RESTART,
    )
    send_timeout_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        300.0,
        description="How long, in seconds, a client may leave its response unread before the gate "
        "ends it; `off` waits for ever. Such a client counts as load for all that time.",
        json_schema_extra=RESTART,
    )
    head_timeout_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        30.0,
        description="How long, in seconds, a client may take for a request's head, from its first "
        "byte to its last; `off` waits for ever.",
        json_schema_extra=RESTART,
    )
    body_timeout_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        60.0,
        description="How long, in seconds, a client may pause within a request's body; `off` waits "
        "for ever. A lane that does not read the body is not held against the client.",
        json_schema_extra=RESTART,
    )
    body_limit: Annotated[int | None, _OFF_OR_BYTES] = Field(
        None,
        description="The largest body of a request in bytes, whichever way it is framed; a larger "
        "one is answered 413. `off` leaves it to the engines, whose prompts may hold images.",
        json_schema_extra=RESTART,
    )
    peek_limit: Annotated[int, number("a whole number of bytes, 0 or more", _whole)] = Field(
        262_144,
        description="Up to how many bytes a request's body is read ahead and decoded for its "
        "number of sequences: 256 KiB are some 60 thousand tokens and take a few hundred "
        "microseconds. A larger body flows through as it comes and counts as one sequence.",
        json_schema_extra=RESTART,
    )
    upstream: Annotated[Literal["pooled", "httpx"], choice("pooled", "httpx")] = Field(
        "pooled",
        description="How the gate speaks to the lanes: its own HTTP/1.1 client, or `httpx`, the "
        "portable one, which is many times slower and keeps no trailers.",
        json_schema_extra=RESTART,
    )
    upstream_ca_file: Annotated[str | None, PATH] = Field(
        None,
        description="A PEM file of the authorities that lanes' certificates are checked against, "
        "for https lanes; unset, the system's.",
        json_schema_extra=RESTART,
    )
    upstream_cert_file: Annotated[str | None, PATH] = Field(
        None,
        description="A PEM file with the certificate that the gate shows to https lanes, its key "
        "in the same file unless UPSTREAM_KEY_FILE names another.",
        json_schema_extra=RESTART,
    )
    upstream_key_file: Annotated[str | None, PATH] = Field(
        None,
        description="A PEM file with the key of UPSTREAM_CERT_FILE.",
        json_schema_extra=RESTART,
    )
    request_usage: Annotated[bool, FLAG] = Field(
        default=False,
        description="Whether streams whose client did not ask for their token count are asked for "
        "it on its behalf (`stream_options.include_usage`), and the extra event is taken out "
        "again. The body is then edited, and events may hold a `usage` of null.",
        json_schema_extra=RESTART,
    )
    scrape_interval_s: Annotated[float | None, _OFF_OR_POSITIVE] = Field(
        5.0,
        description="The time, in seconds, between two readings of what the engines count "
        "themselves: tokens, accept length, and the requests they have in hand. What they have "
        "beyond the gate's own is added to the load; `off` reads nothing.",
        json_schema_extra=RESTART,
    )
    probe_interval_s: Annotated[float, _POSITIVE_S] = Field(
        2.0,
        description="The time, in seconds, between two probes of each lane's health. Lower it to "
        "notice a lost lane sooner.",
        json_schema_extra=RESTART,
    )
    admin_token: Annotated[SecretStr | None, SECRET] = Field(
        None,
        description="The token that calls which change the gate send as `Authorization: Bearer`; "
        "while it is unset, such calls are refused.",
        json_schema_extra=RESTART,
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], choice("debug", "info", "warning", "error")
    ] = Field(
        "info",
        description="The least severe level that is logged.",
        json_schema_extra=RESTART,
    )
    log_format: Annotated[Literal["auto", "json", "text"], choice("auto", "json", "text")] = Field(
        "auto",
        description="One JSON object a line, or text to read; `auto` is text on a terminal and "
        "JSON elsewhere.",
        json_schema_extra=RESTART,
    )
    expose_headers: Annotated[bool, FLAG] = Field(
        default=True,
        description="Whether responses carry `x-specgate-lane` and `x-specgate-reason`. Turn it "
        "off if clients must not see how they were served.",
        json_schema_extra=RESTART,
    )
    accel_buffering: Annotated[bool, FLAG] = Field(
        default=True,
        description="Whether event streams that have no `X-Accel-Buffering` get "
        "`X-Accel-Buffering: no`, which keeps an nginx in front from holding them back.",
        json_schema_extra=RESTART,
    )

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

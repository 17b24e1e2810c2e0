"""What the gate watches, and what it tells."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from specgate.settings.kinds import FLAG, SECRET, choice, number
from specgate.settings.quantities import OFF_OR_SECONDS, RESTART, SECONDS

SHARE = number("a number from 0 to 1", lambda n: 0 <= n <= 1)


class Watching(BaseModel):
    """What the gate watches, and what it tells."""

    scrape_interval_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        5.0,
        description="The time, in seconds, between two readings of what the engines count "
        "themselves: tokens, accept length, and the requests they have in hand. What they have "
        "beyond the gate's own is added to the load; `off` reads nothing.",
        json_schema_extra=RESTART,
    )
    probe_interval_s: Annotated[float, SECONDS] = Field(
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
    control_read: Annotated[Literal["open", "token"], choice("open", "token")] = Field(
        "open",
        description="Who may read below `/_specgate`: whoever reaches the gate, or, with `token`, "
        "those alone who send ADMIN_TOKEN. The dashboard's page and its files hold nothing of the "
        "gate's and are served to all; the page asks for the token before it shows anything. The "
        "probes and `/metrics` are not below `/_specgate`.",
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
    log_sample: Annotated[float, SHARE] = Field(
        1.0,
        description="The share of the lines of requests that went well that is written. All others "
        "always are: errors, whoever made them, reroutes, and clients that left. A request is in "
        "or out by its id, so that several gates agree.",
        json_schema_extra=RESTART,
    )
    otel: Annotated[bool, FLAG] = Field(
        default=False,
        description="Whether each request becomes a span, sent to an OpenTelemetry collector by "
        "OTLP over HTTP. It needs the extra `otel`. Where to, and with which headers: the standard "
        "variables `OTEL_EXPORTER_OTLP_ENDPOINT` (without it http://localhost:4318), "
        "`OTEL_EXPORTER_OTLP_HEADERS` and the rest.",
        json_schema_extra=RESTART,
    )
    otel_sample: Annotated[float, SHARE] = Field(
        1.0,
        description="The share of the requests without a `traceparent` that is traced. With one, a "
        "request is traced where its client says that it is.",
        json_schema_extra=RESTART,
    )

"""How requests are carried: waits, limits, and the way to the lanes."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from specgate.settings.kinds import FLAG, PATH, choice, number
from specgate.settings.quantities import OFF_OR_BYTES, OFF_OR_SECONDS, RESTART, SECONDS, whole


class Carrying(BaseModel):
    """How requests are carried: waits, limits, and the way to the lanes."""

    connect_timeout_s: Annotated[float, SECONDS] = Field(
        5.0,
        description="How long, in seconds, a lane may take to accept a connection before the "
        "request goes to the other one. Raise it if the lanes are far away.",
        json_schema_extra=RESTART,
    )
    first_byte_timeout_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        None,
        description="How long, in seconds, from a request's last byte to the head of its "
        "response; `off` waits for ever, which long queues and long prompts need.",
        json_schema_extra=RESTART,
    )
    idle_timeout_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        None,
        description="How long, in seconds, between two pieces of a response; `off` waits for "
        "ever. Set it if engines hang in the middle of streams, above their longest pause.",
        json_schema_extra=RESTART,
    )
    send_timeout_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        300.0,
        description="How long, in seconds, a client may leave its response unread before the gate "
        "ends it; `off` waits for ever. Such a client counts as load for all that time.",
        json_schema_extra=RESTART,
    )
    head_timeout_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        30.0,
        description="How long, in seconds, a client may take for a request's head, from its first "
        "byte to its last; `off` waits for ever.",
        json_schema_extra=RESTART,
    )
    body_timeout_s: Annotated[float | None, OFF_OR_SECONDS] = Field(
        60.0,
        description="How long, in seconds, a client may pause within a request's body; `off` waits "
        "for ever. A lane that does not read the body is not held against the client.",
        json_schema_extra=RESTART,
    )
    body_limit: Annotated[int | None, OFF_OR_BYTES] = Field(
        None,
        description="The largest body of a request in bytes, whichever way it is framed; a larger "
        "one is answered 413. `off` leaves it to the engines, whose prompts may hold images.",
        json_schema_extra=RESTART,
    )
    peek_limit: Annotated[int, number("a whole number of bytes, 0 or more", whole)] = Field(
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

"""Where the lanes are, and where the gate listens."""

from typing import Annotated

from pydantic import BaseModel, Field

from specgate.settings.addresses import HOST, LANE_URL
from specgate.settings.kinds import number
from specgate.settings.quantities import RELOAD, RESTART


class Where(BaseModel):
    """Where the lanes are, and where the gate listens."""

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

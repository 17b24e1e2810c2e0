"""What the gate watches, and what it tells."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr

from specgate.settings.kinds import SECRET, choice
from specgate.settings.quantities import OFF_OR_SECONDS, RESTART, SECONDS


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

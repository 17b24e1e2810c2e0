"""How the lanes take turns on a pool that holds only one of them."""

import shlex
from typing import Annotated

from pydantic import BaseModel, Field

from specgate.settings.kinds import MASK, Kind
from specgate.settings.quantities import RESTART, SECONDS, SECONDS_OR_0


def _read_command(written: object) -> str:
    text = written if isinstance(written, str) else ""
    try:
        words = shlex.split(text) if text.isprintable() else []
    except ValueError:
        words = []
    if not words or not words[0]:
        raise ValueError(f"must be {COMMAND.allowed}")
    return text


COMMAND = Kind(
    allowed="auto, or a program and its arguments, quoted as for a shell, which reads none of it",
    read=_read_command,
    words={"auto": None},
    # An argument may be a key.
    show=lambda written: MASK,
)


class Alternating(BaseModel):
    """How the lanes take turns on a pool that holds only one of them."""

    alternate_dwell_s: Annotated[float, SECONDS_OR_0] = Field(
        600.0,
        description="With POOL=alternate: how long, in seconds, a lane stays awake at least before "
        "the other takes its place. Each change costs a drain, in which nobody is admitted. It "
        "delays neither an operator who forces a side or drains a lane, nor a lane that is down.",
        json_schema_extra=RESTART,
    )
    alternate_drain_s: Annotated[float, SECONDS_OR_0] = Field(
        20.0,
        description="With POOL=alternate: how long, in seconds, what is in flight on the lane that "
        "is awake may take to end, while all else waits in the queue. What takes longer keeps that "
        "lane awake, and the change is tried again later. As long as your longest generations, "
        "with a QUEUE_TIMEOUT_S that is longer by what parking and waking take.",
        json_schema_extra=RESTART,
    )
    alternate_step_s: Annotated[float, SECONDS] = Field(
        120.0,
        description="With POOL=alternate: how long, in seconds, an engine may take to be parked, "
        "and another one to wake and be ready; what takes longer has failed. Starting a server "
        "from its files wants more, waking one from main memory less.",
        json_schema_extra=RESTART,
    )
    spec_park: Annotated[str | None, COMMAND] = Field(
        None,
        description="With POOL=alternate: how the spec lane's engine is made to give its memory "
        "back. `auto` asks the engine (SGLang, vLLM); else a command that has done so when it "
        "ends with status 0. No shell reads it, and it sees none of the gate's own variables. It "
        "is shown by `specgate config`: keep keys in a file that it reads.",
        json_schema_extra=RESTART,
    )
    spec_wake: Annotated[str | None, COMMAND] = Field(
        None,
        description="The same for making it serve again. The engine is then waited for, up to "
        "ALTERNATE_STEP_S in all. What the command leaves running must have its output elsewhere.",
        json_schema_extra=RESTART,
    )
    plain_park: Annotated[str | None, COMMAND] = Field(
        None,
        description="SPEC_PARK for the plain lane's engine.",
        json_schema_extra=RESTART,
    )
    plain_wake: Annotated[str | None, COMMAND] = Field(
        None,
        description="SPEC_WAKE for the plain lane's engine.",
        json_schema_extra=RESTART,
    )

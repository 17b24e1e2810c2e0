"""A call that goes to both lanes, and the one answer that its client gets.

abort    the better answer: one lane has the request, and the other says that it knows none. One
         that does not answer within OTHER_WAIT_S of the other is not waited for.
stored   the better answer too, as one lane alone can have it; but a 404 is not believed while the
         other lane gave no answer.
admin    the worse answer, and none at all unless both gave one: both are to be changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from specgate.core.errors import ConnectFailed, FirstByteTimeout, HalfDone, LaneFault
from specgate.core.lanes import Lane
from specgate.core.routes import RouteClass
from specgate.upstream.base import Origin, Response

OTHER_WAIT_S = 5.0


@dataclass(slots=True)
class Answers:
    """What the lanes said, in the order of its coming. `aclose` closes all responses."""

    responses: list[Response] = field(default_factory=list)
    faults: list[LaneFault] = field(default_factory=list)

    def chosen(self, route: RouteClass) -> Response:
        """The answer for the client. Raises the lane's fault where there is none to give, a
        ConnectFailed only if no lane took a connection."""
        responses, faults = self.responses, self.faults
        if not responses:
            raise min(faults, key=lambda fault: isinstance(fault, ConnectFailed))
        worst = max(responses, key=lambda response: response.status)
        best = min(responses, key=lambda response: response.status)
        if not faults:
            return worst if route is RouteClass.ADMIN else best
        silent = faults[0]
        if route is RouteClass.ADMIN or (route is RouteClass.STORED and best.status == 404):
            said = f"{best.lane} answered {best.status}"
            raise HalfDone(f"{said}, and of the other lane: {silent}", lane=silent.lane)
        return best

    async def aclose(self) -> None:
        for response in self.responses:
            await response.aclose()


async def ask_all(
    origins: Sequence[Origin],
    send: Callable[[Origin], Awaitable[Response]],
    answers: Answers,
    *,
    patient: bool,
) -> None:
    """Ask all at once, each once. patient: wait for every one, however long it takes."""

    async def ask(origin: Origin) -> None:
        try:
            answers.responses.append(await send(origin))
        except LaneFault as fault:
            answers.faults.append(fault)

    async with asyncio.TaskGroup() as group:
        asking = {
            group.create_task(ask(origin), name=f"ask-{origin.lane}"): origin for origin in origins
        }
        if patient:
            return
        _, open_ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        if open_ and answers.responses:
            _, open_ = await asyncio.wait(open_, timeout=OTHER_WAIT_S)
            for task in open_:
                task.cancel()
                answers.faults.append(_late(asking[task].lane))


def _late(lane: Lane) -> FirstByteTimeout:
    return FirstByteTimeout(
        f"the {lane} lane did not answer within {OTHER_WAIT_S:g} s of the other", lane=lane
    )

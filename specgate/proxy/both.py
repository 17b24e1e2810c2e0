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

from specgate.control.gate import Gate
from specgate.core.config import ProxyConfig
from specgate.core.errors import (
    ConnectFailed,
    FirstByteTimeout,
    HalfDone,
    LaneFault,
    RequestRefused,
)
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.proxy.account import Account
from specgate.proxy.downstream import Downstream
from specgate.proxy.intake import Intake
from specgate.proxy.relay import head_for_client, relay
from specgate.proxy.sending import Sending
from specgate.upstream.base import Origin, Response

TO_BOTH = frozenset({RouteClass.ABORT, RouteClass.ADMIN, RouteClass.STORED})
"""Routes whose calls may go to both lanes: their bodies are held."""

OTHER_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ToBoth:
    """Steps 3 to 6 of such calls, which are no load. `clock`: monotonic seconds."""

    gate: Gate
    sending: Sending
    config: ProxyConfig
    clock: Callable[[], float]

    def takes(self, route: RouteClass, path: str) -> bool:
        """Whether calls of a route in TO_BOTH go to both: where there are two engines. Raises
        RequestRefused for those that the settings refuse, also of one engine whose key is the
        gate's."""
        origins = self.gate.origins()
        several = len(origins) > 1
        if route is RouteClass.ADMIN:
            if self.gate.turns is not None:
                raise _admin_refused(path, both=False)
            guarded = several or origins[0].authorization is not None
            if guarded and not self.config.admin_to_both:
                raise _admin_refused(path)
        return several

    def is_held(self, intake: Intake) -> bool:
        """Whether a call is about what one lane is known to hold: then that one alone has it."""
        state = None if intake.asked is None else intake.asked.state
        return state is not None and self.gate.holds(state)

    async def serve(self, down: Downstream, intake: Intake, account: Account) -> None:
        """Raises ConnectFailed if neither lane took a connection."""
        # In the same step as the choice of lanes: a drain that begins now waits for them.
        admissions = {admission.lane: admission for admission in self.gate.admit_to_all()}
        answers = Answers(lambda lane: self.gate.leave(admissions[lane]))
        patient = account.route is RouteClass.ADMIN
        try:
            await ask_all(
                [admission.origin for admission in admissions.values()],
                lambda origin: self.sending.send(origin, down, intake, account),
                answers,
                patient=patient,
            )
            response = answers.chosen(account.route)
            if not patient:
                # A stream may take long, and the other lane has nothing to do with it.
                await answers.aclose(but=response)
            account.lane, account.reason = response.lane, Reason.BOTH
            head = head_for_client(response, account, self.config)
            await relay(response, head, down, account, self.config, self.clock)
        finally:
            try:
                await answers.aclose()
            finally:
                for lane in admissions:
                    answers.leave(lane)


@dataclass(slots=True)
class Answers:
    """What the lanes said, in the order of its coming. `leave`: a lane has the call in hand no
    more, however often it is said. `aclose` closes all responses."""

    leave: Callable[[Lane], None]
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

    async def aclose(self, but: Response | None = None) -> None:
        for response in self.responses:
            if response is not but:
                await response.aclose()
                self.leave(response.lane)


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
            answers.leave(origin.lane)

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
                lane = asking[task].lane
                answers.faults.append(_late(lane))
                answers.leave(lane)


def _late(lane: Lane) -> FirstByteTimeout:
    return FirstByteTimeout(
        f"the {lane} lane did not answer within {OTHER_WAIT_S:g} s of the other", lane=lane
    )


def _admin_refused(path: str, *, both: bool = True) -> RequestRefused:
    """For a call that changes an engine, where there are two, or the gate keeps its key. both: they
    could be sent to both lanes, neither of which sleeps."""
    hint = ", or have such calls sent to both with SPECGATE_ENGINE_ADMIN=both" if both else ""
    return RequestRefused(
        403,
        f"{path[:100]} changes an engine: call each engine itself, not the gate{hint}",
        code="engine_admin_refused",
    )

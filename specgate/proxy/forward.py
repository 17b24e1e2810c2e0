"""The way of a request, in seven steps; `docs/explanation/life-of-a-request.md` follows them.

1. whose path it is was decided by whoever calls `Forwarder.carry` (`proxy.app`, `proxy.protocol`)
2. intake      3. admit      4. in flight      5. send      6. relay      7. tell

It emits facts and calls no metric, log or trace.
"""

from collections.abc import Callable
from functools import partial

from specgate.control.admission import Admission
from specgate.control.admission_queue import AdmissionQueue, Admit
from specgate.control.gate import Gate
from specgate.core.config import ProxyConfig
from specgate.core.errors import ConnectFailed, Fault, HolderUnreachable, NoLaneReachable
from specgate.core.events import Observer, Outcome, Phase
from specgate.core.headers import usable_id
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.core.tap import StreamTap
from specgate.engines.routes import classify
from specgate.proxy.account import Account
from specgate.proxy.answering import Answering
from specgate.proxy.both import TO_BOTH, ToBoth
from specgate.proxy.declining import Declining, WholeAnswer
from specgate.proxy.downstream import Downstream
from specgate.proxy.intake import Intake, take_in
from specgate.proxy.relay import head_for_client, relay
from specgate.proxy.sending import Sending
from specgate.proxy.watch import WhilePresent
from specgate.upstream.base import Upstream
from specgate.upstream.descriptors import is_ours


class Forwarder:
    """Carries requests to lanes. `queue`: where they wait for step 3."""

    def __init__(
        self,
        *,
        gate: Gate,
        queue: AdmissionQueue,
        upstream: Upstream,
        config: ProxyConfig,
        retry_after_s: int,
        observe: Observer,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        traced: bool = False,
    ) -> None:
        """clock: monotonic seconds. new_id: a fresh request id. traced: whether facts carry the
        client's `traceparent`."""
        self.queue = queue
        self._gate = gate
        self._config = config
        self._retry_after_s = retry_after_s
        self._observe = observe
        self._clock = clock
        self._new_id = new_id
        self._traced = traced
        self._sending = Sending(upstream, gate, config.timeouts.first_byte_s, observe, clock)
        self._declining = Declining(gate, observe, clock)
        self._to_both = ToBoth(gate, self._sending, config, clock)
        self._answering = Answering(config.expose_headers, observe)

    async def carry(self, down: Downstream) -> None:
        """One request, from its head to its last byte. Raises only what is a bug here."""
        account = self._opened(down)
        try:
            with WhilePresent(down):
                account.route = route = classify(account.method, account.path)
                to_both = route in TO_BOTH and self._to_both.takes(route, down.path)
                intake = await take_in(down, route, self._config, held=to_both)  # 2
                account.sequences = intake.sequences
                account.asks_usage = intake.asks_usage
                account.taken_in_at = self._clock()
                if to_both and not self._to_both.is_held(intake):
                    await self._to_both.serve(down, intake, account)  # 3 to 6
                    return
                try:
                    declined = await self._serve(down, intake, account)  # 3 to 6
                except ConnectFailed as fault:
                    await self._serve_after(fault, down, intake, account)
                else:
                    if declined is not None:
                        await self._serve_elsewhere(declined, down, intake, account)
        except ConnectFailed as fault:
            # No lane had it: it counts for none, and no header names one.
            account.lane = account.reason = None
            account.rerouted = False
            await self._answering.answer(self._unreachable(fault), down, account)
        except Fault as fault:
            await self._answering.answer(fault, down, account)
        except BaseException:
            account.outcome = Outcome.GATE_ERROR
            raise
        finally:
            self._observe(account.ended(self._clock()))  # 7

    async def refuse(self, down: Downstream, fault: Fault) -> None:
        """Answer a request that cannot be carried, and tell of it like of any other."""
        account = self._opened(down)
        try:
            await self._answering.answer(fault, down, account)
        finally:
            self._observe(account.ended(self._clock()))

    def _opened(self, down: Downstream) -> Account:
        wire_id = usable_id(down.values.get(b"x-request-id")) or self._new_id()
        method = down.method.decode("ascii", "replace")
        # By position, here and below: by its fields' names an object costs three times as much.
        account = Account(wire_id.decode("ascii"), method, down.path)
        account.wire_id = wire_id
        account.started_at = self._clock()
        if self._traced:
            account.traceparent = down.values.get(b"traceparent")
        return account

    async def _serve(
        self, down: Downstream, intake: Intake, account: Account, avoid: Lane | None = None
    ) -> WholeAnswer | None:
        """Steps 3 to 6 on one lane. Raises ConnectFailed only while it cannot be worked on; returns
        the answer of a lane that declined it where the other may have it, None once it is served.
        """
        admit = partial(
            self._gate.admit, account.route, intake.sequences, asked=intake.asked, avoid=avoid
        )
        straight = self.queue.straight or avoid is not None or self._ends_some(account.route)
        with admit() if straight else await self._let_in(admit, account) as admission:  # 3, 4
            account.lane, account.reason = admission.lane, admission.reason
            origin = admission.origin
            response = await self._sending.send(origin, down, intake, account)  # 5
            try:
                if account.route in _TELLS_AN_ID and 200 <= response.status < 300:
                    account.learn = partial(self._gate.learn, origin)
                head = head_for_client(response, account, self._config)
                # Only what can be sent again, and only once.
                again = avoid is None and intake.rest is None
                if again and (response.status == 503 or account.tap.__class__ is StreamTap):
                    declined = await self._declining.found(response, account)
                    if declined is not None:
                        account.tap = account.learn = None
                        return declined
                await relay(response, head, down, account, self._config, self._clock)  # 6
                return None
            finally:
                await response.aclose()

    async def _let_in(self, admit: Admit, account: Account) -> Admission:
        """Step 3 where there may be no room: at once, or after its turn in the queue."""
        sequences = account.sequences if account.route.is_generation else 0
        waiter = self.queue.place(sequences)
        if waiter is None:
            return admit()
        account.phase = Phase.QUEUED
        began = self._clock()
        try:
            return await waiter.admission(admit)
        finally:
            # Waiting for room is no time that the gate took for itself.
            account.taken_in_at = self._clock()
            account.queued_s = account.taken_in_at - began

    def _ends_some(self, route: RouteClass) -> bool:
        """Whether a call may end what a fence waits for: then it does not wait for the fence."""
        return route is RouteClass.ABORT and self.queue.fenced

    async def _serve_after(
        self, fault: ConnectFailed, down: Downstream, intake: Intake, account: Account
    ) -> None:
        """Steps 3 to 6 once more, of a request that its lane could not take: on the other one, or
        on whichever is found to serve where one sleeps. Raises ConnectFailed if that fails too."""
        if account.reason is Reason.HELD:
            raise self._holder_unreachable(fault.lane) from None
        if not is_ours(fault) and self._gate.doubt(fault.lane):
            await self._serve(down, intake, account)
        else:
            account.rerouted = True
            await self._serve(down, intake, account, avoid=fault.lane)

    async def _serve_elsewhere(
        self, declined: WholeAnswer, down: Downstream, intake: Intake, account: Account
    ) -> None:
        """Steps 3 to 6 on the other lane, of a request that the first one declined."""
        reason, account.rerouted = account.reason, True
        try:
            await self._serve(down, intake, account, avoid=declined.lane)
        except ConnectFailed:
            # The other is no better off: the client gets what the first one said.
            account.lane, account.reason, account.rerouted = declined.lane, reason, False
            account.head_at = self._clock()
            head = head_for_client(declined, account, self._config)
            await relay(declined, head, down, account, self._config, self._clock)

    def _unreachable(self, fault: ConnectFailed) -> NoLaneReachable:
        why = "neither lane takes a connection"
        if is_ours(fault):
            why = "the gate is short of files or memory for a connection to a lane"
        return NoLaneReachable(f"{why}; try again shortly", retry_after_s=self._retry_after_s)

    def _holder_unreachable(self, lane: Lane) -> HolderUnreachable:
        return HolderUnreachable(
            f"the {lane} lane holds what this request refers to, and takes no connection; try "
            "again shortly",
            retry_after_s=self._retry_after_s,
        )


_TELLS_AN_ID = frozenset({RouteClass.RESPONSES, RouteClass.SESSION})
"""Routes whose answers name what the engine holds from then on."""

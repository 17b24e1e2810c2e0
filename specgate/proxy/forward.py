"""The way of a request, in seven steps; `docs/explanation/life-of-a-request.md` follows them.

1. whose path it is was decided by whoever calls `Forwarder.carry` (`proxy.app`)
2. intake      3. admit      4. in flight      5. send      6. relay      7. tell

It emits facts and calls no metric, log or trace.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from specgate.control.admission import Admission
from specgate.control.admission_queue import AdmissionQueue, Admit
from specgate.control.gate import Gate
from specgate.core.config import ProxyConfig
from specgate.core.errors import (
    ClientGone,
    ClientStalled,
    ConnectFailed,
    CutShort,
    FailureKind,
    Fault,
    FirstByteTimeout,
    HolderUnreachable,
    LaneFault,
    NoAnswer,
    NoLaneReachable,
    Stopping,
    StreamBroken,
)
from specgate.core.events import LaneFailed, Observer, Outcome, Phase
from specgate.core.headers import Pairs, to_lane, usable_id
from specgate.core.health import Health, Sign
from specgate.core.lanes import Lane
from specgate.core.policy import Reason
from specgate.core.routes import RouteClass
from specgate.engines.base import Engine
from specgate.engines.declining import Declined
from specgate.engines.routes import classify
from specgate.engines.spelling import climbs
from specgate.proxy.account import Account
from specgate.proxy.both import Answers, ask_all
from specgate.proxy.declining import WholeAnswer, why_declined
from specgate.proxy.downstream import Downstream
from specgate.proxy.intake import TO_BOTH, Intake, admin_refused, climbing_refused, take_in
from specgate.proxy.last_words import last_words
from specgate.proxy.relay import relay
from specgate.proxy.replies import fault_reply, own_headers
from specgate.proxy.watch import WhilePresent, within
from specgate.upstream.base import Origin, Request, Response, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarder:
    """Carries requests to lanes. `clock`: monotonic seconds; `new_id`: a fresh request id;
    `traced`: whether facts carry the client's `traceparent`."""

    gate: Gate
    queue: AdmissionQueue
    upstream: Upstream
    config: ProxyConfig
    retry_after_s: int
    observe: Observer
    clock: Callable[[], float]
    new_id: Callable[[], bytes]
    traced: bool = False

    async def carry(self, down: Downstream) -> None:
        """One request, from its head to its last byte. Raises only what is a bug here."""
        account = self._opened(down)
        try:
            with WhilePresent(down):
                account.route = route = classify(account.method, account.path)
                to_both = route in TO_BOTH and self._goes_to_both(route, down.path)
                intake = await take_in(down, route, self.config, held=to_both)  # 2
                account.sequences = intake.sequences
                account.asks_usage = intake.asks_usage
                account.taken_in_at = self.clock()
                if to_both and not self._is_held(intake):
                    await self._serve_by_both(down, intake, account)
                    return
                try:
                    answer = await self._serve(down, intake, account)
                except ConnectFailed as fault:
                    if account.reason is Reason.HELD:
                        raise self._holder_unreachable(fault.lane) from None
                    if self.gate.doubt(fault.lane):
                        await self._serve(down, intake, account)
                    else:
                        account.rerouted = True
                        await self._serve(down, intake, account, avoid=fault.lane)
                else:
                    if answer is not None:
                        await self._serve_elsewhere(answer, down, intake, account)
        except ConnectFailed:
            # No lane had it: it counts for none, and no header names one.
            account.lane = account.reason = None
            account.rerouted = False
            await self._answer(self._unreachable(), down, account)
        except Fault as fault:
            await self._answer(fault, down, account)
        except BaseException:
            account.outcome = Outcome.GATE_ERROR
            raise
        finally:
            self.observe(account.ended(self.clock()))  # 7

    async def refuse(self, down: Downstream, fault: Fault) -> None:
        """Answer a request that cannot be carried, and tell of it like of any other."""
        account = self._opened(down)
        try:
            await self._answer(fault, down, account)
        finally:
            self.observe(account.ended(self.clock()))

    async def _serve_elsewhere(
        self, answer: WholeAnswer, down: Downstream, intake: Intake, account: Account
    ) -> None:
        """Steps 3 to 6 on the other lane, of a request that the first one declined."""
        reason, account.rerouted = account.reason, True
        try:
            await self._serve(down, intake, account, avoid=answer.lane)
        except ConnectFailed:
            # The other is no better off: the client gets what the first one said.
            account.lane, account.reason, account.rerouted = answer.lane, reason, False
            account.head_at = self.clock()
            await relay(answer, down, account, self.config, self.clock)

    async def _serve(
        self, down: Downstream, intake: Intake, account: Account, avoid: Lane | None = None
    ) -> WholeAnswer | None:
        """Steps 3 to 6 on one lane. Raises ConnectFailed only while it cannot be worked on; returns
        the answer of a lane that declined it where the other may have it, None once it is served.
        """
        admit = partial(
            self.gate.admit, account.route, intake.sequences, asked=intake.asked, avoid=avoid
        )
        straight = self.queue.straight or avoid is not None or self._ends_some(account.route)
        with admit() if straight else await self._let_in(admit, account) as admission:  # 3, 4
            account.lane, account.reason = admission.lane, admission.reason
            origin = admission.origin
            response = await self._send(origin, down, intake, account)  # 5
            if account.route in _TELLS_AN_ID and 200 <= response.status < 300:
                account.learn = partial(self.gate.learn, origin)
            # Only what can be sent again, and only once.
            look = self._declined if avoid is None and intake.rest is None else None
            try:
                return await relay(response, down, account, self.config, self.clock, look)  # 6
            finally:
                await response.aclose()

    async def _declined(self, response: Response, account: Account) -> WholeAnswer | None:
        """The lane's answer, if it says that it did not take the request on, and the other lane may
        have it: one that serves, and that no rule speaks against."""
        lane, stream = response.lane, response.status != 503
        if stream and self.gate.engine(lane) not in _DECLINE_IN_STREAM:
            return None
        found = await why_declined(response, stream=stream)
        account.head_at = self.clock()  # what was waited for was the engine's
        if found is None or account.reason in _BOUND:
            return None
        why, answer = found
        if why is Declined.QUEUE_FULL and account.sequences > 1:
            return None  # the engine may have taken some of them
        other = self.gate.view().lanes[lane.other]
        if len(self.gate.origins()) == 1 or other.draining or other.health is Health.EJECTED:
            return None
        message = f"the {lane} lane declined a request: {why}"
        self.observe(LaneFailed(lane=lane, kind=FailureKind.DECLINED, message=message))
        return answer

    async def _let_in(self, admit: Admit, account: Account) -> Admission:
        """Step 3 where there may be no room: at once, or after its turn in the queue."""
        sequences = account.sequences if account.route.is_generation else 0
        waiter = self.queue.place(sequences)
        if waiter is None:
            return admit()
        account.phase = Phase.QUEUED
        began = self.clock()
        try:
            return await waiter.admission(admit)
        finally:
            # Waiting for room is no time that the gate took for itself.
            account.taken_in_at = self.clock()
            account.queued_s = account.taken_in_at - began

    async def _serve_by_both(self, down: Downstream, intake: Intake, account: Account) -> None:
        """Steps 3 to 6 of a call that goes to both lanes. Raises ConnectFailed if neither took a
        connection."""
        answers = Answers()
        try:
            await ask_all(
                self.gate.origins(),
                lambda origin: self._send(origin, down, intake, account),
                answers,
                patient=account.route is RouteClass.ADMIN,
            )
            response = answers.chosen(account.route)
            account.lane, account.reason = response.lane, Reason.BOTH
            await relay(response, down, account, self.config, self.clock)
        finally:
            await answers.aclose()

    def _goes_to_both(self, route: RouteClass, path: str) -> bool:
        """Whether such calls may: where there are two engines. Raises RequestRefused for those that
        the settings refuse, also of one engine whose key is the gate's."""
        origins = self.gate.origins()
        several = len(origins) > 1
        if route is RouteClass.ADMIN:
            if self.gate.turns is not None:
                raise admin_refused(path, both=False)
            guarded = several or origins[0].authorization is not None
            if guarded and not self.config.admin_to_both:
                raise admin_refused(path)
        return several

    def _ends_some(self, route: RouteClass) -> bool:
        """Whether a call may end what a fence waits for: then it does not wait for the fence."""
        return route is RouteClass.ABORT and self.queue.fenced

    def _is_held(self, intake: Intake) -> bool:
        """Whether a call is about what one lane is known to hold."""
        state = None if intake.asked is None else intake.asked.state
        return state is not None and self.gate.holds(state)

    def _opened(self, down: Downstream) -> Account:
        wire_id = usable_id(down.values.get(b"x-request-id")) or self.new_id()
        method = down.method.decode("ascii", "replace")
        # By position, here and below: by its fields' names an object costs three times as much.
        account = Account(wire_id.decode("ascii"), method, down.path)
        account.wire_id = wire_id
        account.started_at = self.clock()
        if self.traced:
            account.traceparent = down.values.get(b"traceparent")
        return account

    async def _send(
        self, origin: Origin, down: Downstream, intake: Intake, account: Account
    ) -> Response:
        """Send to a lane; what is seen of it goes to its health."""
        if origin.base and climbs(down.path):
            raise climbing_refused()
        chunked = down.length is None
        request = Request(
            down.method,
            origin.target(down.target),
            to_lane(
                _with_length(down, intake) if intake.asks_usage else down.headers,
                method=down.method,
                authority=origin.authority,
                request_id=account.wire_id,
                chunked=chunked,
                authorization=origin.authorization,
            ),
            chunked,
            intake.pieces,
            intake.rest and _until_sent(intake.rest, account),
        )
        if intake.rest is None:
            account.phase = Phase.PREFILL
        account.sent_at = self.clock()
        limit_s = self.config.timeouts.first_byte_s

        try:
            sending = self.upstream.send(origin, request)
            if limit_s is not None:
                sending = within(limit_s, sending, lambda: _late(origin.lane, limit_s))
            response = await sending
        except LaneFault as fault:
            if isinstance(fault, ConnectFailed):
                self.gate.saw(origin, Sign.UNREACHED, str(fault))
            elif isinstance(fault, NoAnswer) and fault.unheard:
                self.gate.saw(origin, Sign.BROKE, str(fault))
            self.observe(LaneFailed(lane=fault.lane, kind=fault.kind, message=str(fault)))
            raise
        account.head_at = self.clock()
        if response.status != 503:
            self.gate.saw(origin, Sign.SERVED, "it served a request")
        return response

    def _unreachable(self) -> NoLaneReachable:
        return NoLaneReachable(
            "neither lane takes a connection; try again shortly", retry_after_s=self.retry_after_s
        )

    def _holder_unreachable(self, lane: Lane) -> HolderUnreachable:
        return HolderUnreachable(
            f"the {lane} lane holds what this request refers to, and takes no connection; try "
            "again shortly",
            retry_after_s=self.retry_after_s,
        )

    async def _answer(self, fault: Fault, down: Downstream, account: Account) -> None:
        """Tell the client, if it is there and nothing was sent yet; else leave the response cut."""
        begun = account.status is not None
        account.failed(fault)
        if isinstance(fault, StreamBroken):
            self.observe(LaneFailed(lane=fault.lane, kind=fault.kind, message=str(fault)))
        if begun:
            await self._break_off(fault, down, account)
        if begun or isinstance(fault, ClientGone | ClientStalled):
            return
        status, headers, body = fault_reply(fault, request_id=account.wire_id)
        if self.config.expose_headers and account.lane and account.reason:
            headers += own_headers(account.lane, account.reason)
        if isinstance(fault, Stopping | CutShort):
            down.last()
        account.status = status
        await down.start(status, b"", headers)
        down.write(body)
        await down.finish([])

    async def _break_off(self, fault: Fault, down: Downstream, account: Account) -> None:
        """Say on an event stream why it is not whole; what was begun is then left cut."""
        if account.stream is None or not isinstance(fault, StreamBroken | CutShort):
            return
        # With the usage event taken out, what the client has is not what the tap has.
        sent = b"data:" if account.asks_usage else account.stream.tail
        if down.write(last_words(account.route, sent, fault)):
            with suppress(ClientStalled):
                await within(LAST_WORDS_S, down.drain(), _unread)


LAST_WORDS_S = 5.0
"""How long a client may take to read the end of a stream that broke off."""

_DECLINE_IN_STREAM = frozenset({Engine.SGLANG, Engine.UNKNOWN})
"""Engines that may say in an event stream that they did not take its request on."""

_BOUND = frozenset({Reason.HELD, Reason.REQUESTED, Reason.SPEC_REFUSES, Reason.SPEC_CHANGES})
"""Reasons for which a declined request stays declined: the other lane would serve it otherwise than
it was asked to. One that is not reachable at all is another matter (`core.rules`)."""

_TELLS_AN_ID = frozenset({RouteClass.RESPONSES, RouteClass.SESSION})
"""Routes whose answers name what the engine holds from then on."""


async def _until_sent(rest: AsyncIterator[bytes], account: Account) -> AsyncIterator[bytes]:
    """The rest of a body as it arrives: its end is the end of the upload."""
    async for piece in rest:
        yield piece
    account.phase = Phase.PREFILL


def _with_length(down: Downstream, intake: Intake) -> Pairs:
    """The client's headers, with the length that a body has which was edited."""
    if down.length is None:
        return down.headers
    length = b"%d" % sum(map(len, intake.pieces))
    return [
        (name, length if name.lower() == b"content-length" else value)
        for name, value in down.headers
    ]


def _unread() -> ClientStalled:
    return ClientStalled("the client did not read the end of its stream")


def _late(lane: Lane, limit_s: float) -> FirstByteTimeout:
    message = f"the {lane} lane did not begin to answer within {limit_s:g} s"
    return FirstByteTimeout(message, lane=lane)

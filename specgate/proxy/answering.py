"""What a client is told of a fault: an answer while nothing was sent yet; after that the last words
on a stream of events or lines, which is then cut like any other response that is not whole.
"""

from contextlib import suppress
from dataclasses import dataclass

from specgate.core.errors import ClientGone, ClientStalled, CutShort, Fault, Stopping, StreamBroken
from specgate.core.events import LaneFailed, Observer
from specgate.core.tap import LinesTap
from specgate.proxy.account import Account
from specgate.proxy.downstream import Downstream
from specgate.proxy.last_words import last_line, last_words
from specgate.proxy.replies import fault_reply, own_headers
from specgate.proxy.watch import within

LAST_WORDS_S = 5.0
"""How long a client may take to read the end of a stream that broke off."""


@dataclass(frozen=True, slots=True)
class Answering:
    """`expose_headers`: answers name the lane and the reason, as responses do."""

    expose_headers: bool
    observe: Observer

    async def answer(self, fault: Fault, down: Downstream, account: Account) -> None:
        """Tell the client, if it is there and nothing was sent yet; else leave the response cut."""
        begun = account.status is not None
        account.failed(fault)
        if isinstance(fault, StreamBroken):
            self.observe(LaneFailed(lane=fault.lane, kind=fault.kind, message=str(fault)))
        if begun:
            await _break_off(fault, down, account)
        if begun or isinstance(fault, ClientGone | ClientStalled):
            return
        status, headers, body = fault_reply(fault, request_id=account.wire_id)
        if self.expose_headers and account.lane and account.reason:
            headers += own_headers(account.lane, account.reason)
        if isinstance(fault, Stopping | CutShort):
            down.last()
        account.status = status
        await down.start(status, b"", headers)
        down.write(body)
        await down.finish([])


async def _break_off(fault: Fault, down: Downstream, account: Account) -> None:
    """Say on a stream why it is not whole; what was begun is then left cut."""
    if account.stream is None or not isinstance(fault, StreamBroken | CutShort):
        return
    if isinstance(account.stream, LinesTap):
        words = last_line(account.stream.tail, fault)
    else:
        # With the usage event taken out, what the client has is not what the tap has.
        sent = b"data:" if account.asks_usage else account.stream.tail
        words = last_words(account.route, sent, fault)
    if down.write(words):
        with suppress(ClientStalled):
            await within(LAST_WORDS_S, down.drain(), _unread)


def _unread() -> ClientStalled:
    return ClientStalled("the client did not read the end of its stream")

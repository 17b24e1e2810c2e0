"""Step 6: the response, down to the client, unchanged and as it comes."""

from collections.abc import Awaitable, Callable, Iterable
from typing import cast

from specgate.core.config import ProxyConfig
from specgate.core.errors import ClientStalled
from specgate.core.events import Phase
from specgate.core.headers import ClientHead, Pairs, end_to_end, media_type, to_client, value_of
from specgate.core.ids import IdTap
from specgate.core.routes import GENERATES
from specgate.core.tap import StreamTap, Tap, tap_for
from specgate.core.usage import UsageFilter
from specgate.proxy.account import Account
from specgate.proxy.declining import WholeAnswer
from specgate.proxy.downstream import Downstream
from specgate.proxy.replies import own_headers
from specgate.proxy.watch import within
from specgate.upstream.base import Response

Look = Callable[[Response, Account], Awaitable[WholeAnswer | None]]


async def relay(
    response: Response,
    down: Downstream,
    account: Account,
    config: ProxyConfig,
    clock: Callable[[], float],
    look: Look | None = None,
) -> WholeAnswer | None:
    """Head, body as it comes, end. The lane is read no faster than the client reads.

    look: looks at a 503 and at the beginning of an event stream before anything goes down; what it
    returns, if it does, is returned, and nothing went down.

    Raises StreamBroken, ClientStalled; the caller closes the response.
    """
    head = _head(response, account, config)
    # Only what decodes tokens has any to count, and what is compressed cannot be read along.
    if account.route in GENERATES and not head.encoded:
        account.tap = tap_for(head.content_type)
    streams = account.tap.__class__ is StreamTap
    if look is not None and (streams or response.status == 503):
        declined = await look(response, account)
        if declined is not None:
            account.tap = None
            return declined
    if streams and value_of(head.pairs, b"content-length") is None:
        account.stream = cast("StreamTap", account.tap)
    account.status = response.status
    account.phase = Phase.STREAM
    await down.start(response.status, response.reason, head.pairs)
    account.answered_at = clock()
    if account.learn is not None and not head.encoded:
        account.tap = IdTap(account.tap or tap_for(head.content_type), account.learn)
    sink = _Patient(down, account.tap, clock, config.timeouts.send_s)
    if (
        account.asks_usage
        and media_type(head.content_type) == b"text/event-stream"
        and not head.encoded
    ):
        sink = _Discreet(sink)
    await response.deliver(sink, config.timeouts.idle_s)
    sink.end()
    trailers = response.trailers
    await down.finish(_trailers(trailers) if trailers else trailers)
    return None


def _trailers(pairs: Pairs) -> Pairs:
    """What of the trailers goes through: what would of the headers, and no word on framing."""
    return [pair for pair in end_to_end(pairs) if pair[0].lower() != b"content-length"]


def _head(response: Response, account: Account, config: ProxyConfig) -> ClientHead:
    own: Iterable[tuple[bytes, bytes]] = ()
    if config.expose_headers and account.reason is not None:
        own = own_headers(response.lane, account.reason)
    return to_client(
        response.headers,
        request_id=account.wire_id,
        accel_buffering=config.accel_buffering,
        own=own,
    )


class _Patient:
    """The client as a sink: with a tap that reads along, and an end to waiting for it."""

    __slots__ = ("_clock", "_down", "_send_s", "_tap", "write")

    def __init__(
        self,
        down: Downstream,
        tap: Tap | None,
        clock: Callable[[], float],
        send_s: float | None,
    ) -> None:
        self._down = down
        self._tap = tap
        self._clock = clock
        self._send_s = send_s
        # Without a tap a piece goes straight through, one call a piece.
        self.write = down.write if tap is None else self._through(down.write, tap.feed, clock)

    @staticmethod
    def _through(
        write: Callable[[bytes], bool],
        feed: Callable[[bytes, float], None],
        clock: Callable[[], float],
    ) -> Callable[[bytes], bool]:
        # A closure: what it calls for each chunk of a stream is bound once.
        def write_and_feed(piece: bytes) -> bool:
            full = write(piece)
            feed(piece, clock())
            return full

        return write_and_feed

    def end(self) -> None:
        """The body is complete."""

    async def drain(self) -> None:
        await within(self._send_s, self._down.drain(), self._stalled)

    def _stalled(self) -> ClientStalled:
        return ClientStalled(f"the client read nothing for {self._send_s:g} s")


class _Discreet(_Patient):
    """The same, less the usage event that only the gate asked for. The tap has read it by then."""

    __slots__ = ("_filter",)

    def __init__(self, sink: _Patient) -> None:
        super().__init__(sink._down, sink._tap, sink._clock, sink._send_s)
        self._filter = UsageFilter()
        self.write = self._write_filtered

    def _write_filtered(self, piece: bytes) -> bool:
        if self._tap is not None:
            self._tap.feed(piece, self._clock())
        passed = self._filter.feed(piece)
        return self._down.write(passed) if passed else False

    def end(self) -> None:
        if rest := self._filter.rest():
            self._down.write(rest)

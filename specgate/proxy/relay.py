"""Step 6: the response, down to the client, unchanged and as it comes."""

from collections.abc import Callable, Iterable

from specgate.core.config import ProxyConfig
from specgate.core.errors import ClientStalled
from specgate.core.events import Phase
from specgate.core.headers import ClientHead, Pairs, end_to_end, media_type, to_client, value_of
from specgate.core.ids import IdTap
from specgate.core.routes import GENERATES, RouteClass
from specgate.core.tap import LinesTap, StreamTap, Tap, tap_for
from specgate.core.usage import UsageFilter
from specgate.proxy.account import Account
from specgate.proxy.downstream import Downstream
from specgate.proxy.replies import own_headers
from specgate.proxy.watch import within
from specgate.upstream.base import Response


def head_for_client(response: Response, account: Account, config: ProxyConfig) -> ClientHead:
    """The head as it goes down; and `account.tap`, if something is to read along in the body."""
    own: Iterable[tuple[bytes, bytes]] = ()
    if config.expose_headers and account.reason is not None:
        own = own_headers(response.lane, account.reason)
    head = to_client(
        response.headers,
        request_id=account.wire_id,
        accel_buffering=config.accel_buffering,
        own=own,
    )
    # Only what decodes tokens has any to count, and what is compressed cannot be read along.
    if account.route in GENERATES and not head.encoded:
        account.tap = tap_for(head.content_type)
    return head


async def relay(
    response: Response,
    head: ClientHead,
    down: Downstream,
    account: Account,
    config: ProxyConfig,
    clock: Callable[[], float],
) -> None:
    """Head, body as it comes, end. The lane is read no faster than the client reads.

    head: what `head_for_client` made of the response's. Raises StreamBroken, ClientStalled; the
    caller closes the response.
    """
    reading = account.tap
    if account.route is RouteClass.STORED and not head.encoded:
        # It decodes nothing, and nothing of it is counted; but it may be a response as a stream.
        reading = tap_for(head.content_type)
    discreet = (
        account.asks_usage
        and media_type(head.content_type) == b"text/event-stream"
        and not head.encoded
    )
    # A length that the engine gave counts the event that is taken out.
    pairs = _without_length(head.pairs) if discreet else head.pairs
    if isinstance(reading, StreamTap | LinesTap) and value_of(pairs, b"content-length") is None:
        account.stream = reading
    account.status = response.status
    account.phase = Phase.STREAM
    await down.start(response.status, response.reason, pairs)
    account.answered_at = clock()
    if account.learn is not None and not head.encoded:
        account.tap = reading = IdTap(reading or tap_for(head.content_type), account.learn)
    sink = _Patient(down, reading, clock, config.timeouts.send_s)
    if discreet:
        sink = _Discreet(sink)
    await response.deliver(sink, config.timeouts.idle_s)
    sink.end()
    trailers = response.trailers
    await down.finish(_trailers(trailers) if trailers else trailers)


def _trailers(pairs: Pairs) -> Pairs:
    """What of the trailers goes through: what would of the headers, and no word on framing."""
    return _without_length(end_to_end(pairs))


def _without_length(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0].lower() != b"content-length"]


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
        write = down.write
        if tap is None:
            # A piece goes straight through, one call a piece.
            self.write = write
            return
        feed = tap.feed

        # A closure: what it calls for each chunk of a stream is bound once.
        def write_and_feed(piece: bytes) -> bool:
            full = write(piece)
            feed(piece, clock())
            return full

        self.write = write_and_feed

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

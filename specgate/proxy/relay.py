"""Step 6: the response, down to the client, unchanged and as it comes."""

from collections.abc import Callable
from contextlib import aclosing

from specgate.core.config import ProxyConfig
from specgate.core.errors import ClientStalled, FailureKind, StreamBroken
from specgate.core.events import Phase
from specgate.core.headers import to_client, value_of
from specgate.core.tap import tap_for
from specgate.proxy.account import Account
from specgate.proxy.downstream import Downstream
from specgate.proxy.replies import own_headers
from specgate.proxy.watch import within
from specgate.upstream.base import Response


async def relay(
    response: Response,
    down: Downstream,
    account: Account,
    config: ProxyConfig,
    clock: Callable[[], float],
) -> None:
    """Head and body, chunk by chunk: the next one is read when the client took the last.

    Raises StreamBroken, ClientStalled; the caller closes the response.
    """
    own = (
        own_headers(lane=response.lane, reason=account.reason or "")
        if config.expose_headers
        else []
    )
    headers = to_client(
        response.headers,
        request_id=account.request_id,
        accel_buffering=config.accel_buffering,
        own=own,
    )
    account.status = response.status
    account.phase = Phase.STREAM
    await down.start(response.status, headers)
    account.answered_at = clock()
    tap = None
    if account.route.is_generation and value_of(response.headers, b"content-encoding") is None:
        tap = account.tap = tap_for(value_of(response.headers, b"content-type"))

    send_s, idle_s = config.timeouts.send_s, config.timeouts.idle_s

    def stalled() -> ClientStalled:
        return ClientStalled(f"the client read nothing for {send_s:g} s")

    def idle() -> StreamBroken:
        message = f"the {response.lane} lane sent nothing for {idle_s:g} s"
        return StreamBroken(message, lane=response.lane, kind=FailureKind.IDLE_TIMEOUT)

    async with aclosing(response.chunks()) as chunks:
        while True:
            try:
                chunk = await within(idle_s, anext(chunks), idle)
            except StopAsyncIteration:
                break
            if tap is not None:
                tap.feed(chunk, clock())
            await within(send_s, down.write(chunk), stalled)
    await within(send_s, down.finish(), stalled)

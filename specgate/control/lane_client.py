"""The client for the gate's own questions to engines: probes, scrapes, parking and waking."""

import ssl

import httpx2


def lane_client(timeout: httpx2.Timeout, tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """No proxies from the environment, no redirects. Each question on a connection of its own: a
    lane must accept one, and an idle one that its engine closes as the next question begins would
    look like a lane that breaks off."""
    return httpx2.AsyncClient(
        trust_env=False,
        timeout=timeout,
        follow_redirects=False,
        transport=_Transport(
            trust_env=False,
            verify=tls if tls is not None else False,
            limits=httpx2.Limits(max_keepalive_connections=0),
        ),
    )


class _Transport(httpx2.AsyncHTTPTransport):
    """Raises httpx2's errors and no others. Of a connection that is reset as it is made, anyio
    asks a socket that is gone for its peer: an AttributeError on uvloop, an OSError elsewhere."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except (AttributeError, OSError) as error:
            message = f"the connection ended as it was made: {error}"
            raise httpx2.ReadError(message, request=request) from error

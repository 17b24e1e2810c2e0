"""What a client sends, read: bytes in, exchanges out.

The parser is llhttp (httptools), strict as it comes; `proxy.head` closes what it leaves open. What
it does not bound is bounded here: a head, the trailers behind a body, and the framing between two
pieces of one, each by HEAD_LIMIT.
"""

from typing import Protocol

import httptools

from specgate.core.errors import RequestRefused
from specgate.core.headers import Pairs
from specgate.proxy.exchange import Exchange, Wire
from specgate.proxy.head import HEAD_LIMIT, framing_again, read_head


class Receiver(Wire, Protocol):
    """The connection, as its messages see it."""

    def head_came(self, exchange: Exchange) -> None: ...

    def body_came(self, exchange: Exchange, piece: bytes) -> None: ...

    def body_ended(self, exchange: Exchange) -> None: ...


class Messages:
    """`incoming`: the exchange whose body is being read. `in_head`: a head has begun."""

    __slots__ = (
        "_headers",
        "_parser",
        "_receiver",
        "_replaying",
        "_silent",
        "_size",
        "_target",
        "_upgraded",
        "in_head",
        "incoming",
    )

    def __init__(self, receiver: Receiver) -> None:
        self.incoming: Exchange | None = None
        self.in_head = False
        self._receiver = receiver
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: Pairs = []
        self._size = 0  # bytes of the head, or of the trailers, so far
        self._silent = 0  # bytes since the parser last said anything of them
        self._upgraded: Exchange | None = None
        self._replaying = False

    def feed(self, data: bytes) -> None:
        """Read on. Raises RequestRefused for what cannot be read, and then has had its last."""
        while data:
            self._silent += len(data)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._after_upgrade(data[upgrade.args[0] :])
                continue
            except httptools.HttpParserCallbackError as error:
                # What a callback raised: a refusal, or an error of the gate's own.
                raise error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise RequestRefused(400, f"not HTTP: {error}", code="bad_http") from None
            if self._size + self._silent > HEAD_LIMIT:
                raise _head_too_large()
            return

    # What the parser says

    def on_message_begin(self) -> None:
        if self._replaying:
            return
        self.in_head = True
        self._target = b""
        self._headers = []
        self._size = self._silent = 0

    def on_url(self, url: bytes) -> None:
        self._silent = 0
        if not self._replaying:
            self._target += url
            self._size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._silent = 0
        if self._replaying:
            return
        self._size += len(name) + len(value) + 4
        # Else it is a trailer: it never acts as a header, and ends here.
        if self.in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._silent = 0
        if self._replaying:
            return
        parser = self._parser
        exchange = read_head(
            self._receiver,
            method=parser.get_method(),
            target=self._target,
            headers=self._headers,
            version=parser.get_http_version(),
            keep_alive=parser.should_keep_alive(),
        )
        if self._size > HEAD_LIMIT:
            exchange.fail(_head_too_large())
        if parser.should_upgrade():
            self._upgraded = exchange
        self.in_head = False
        self.incoming = exchange
        self._size = 0
        self._receiver.head_came(exchange)

    def on_body(self, piece: bytes) -> None:
        self._silent = 0
        if self.incoming is not None:
            self._receiver.body_came(self.incoming, piece)

    def on_message_complete(self) -> None:
        if self._upgraded is not None:
            return
        exchange, self.incoming = self.incoming, None
        if exchange is not None:
            self._receiver.body_ended(exchange)

    def _after_upgrade(self, rest: bytes) -> bytes:
        """An upgrade that we do not make leaves the parser blind to the body: a new one takes the
        rest, told how it is framed. Returns what is to be read on."""
        exchange, self._upgraded = self._upgraded, None
        if exchange is None or exchange.refusal is not None:
            # Whatever follows is not for us; after CONNECT it is no HTTP.
            self.on_message_complete()
            return b""
        self._parser = httptools.HttpRequestParser(self)
        self._replaying = True
        self._parser.feed_data(framing_again(exchange))
        self._replaying = False
        return rest


def _head_too_large() -> RequestRefused:
    return RequestRefused(
        431, f"the request's head is larger than {HEAD_LIMIT} bytes", code="head_too_large"
    )

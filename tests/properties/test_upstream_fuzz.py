"""The pooled upstream against any engine: proper answers in any pieces, cut ones, corrupted ones.

The generator knows what it wrote, and h11 reads the proper ones too. What must hold always: an
exchange ends; it delivers what the engine framed as its body, or the beginning of it and a fault;
and the next request gets its own answer whatever came before.
"""

from dataclasses import dataclass

import h11
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specgate.core.errors import NoAnswer, StreamBroken
from specgate.core.headers import Pairs
from tests.properties.fed import FedUpstream, Outcome, Script, cut, exchange, quiet
from tests.support.clocks import run_in_jumping_time

short = settings(max_examples=150, deadline=None)
"""Locally: thousands (`--hypothesis-seed` and a larger max_examples); findings are named tests."""

OWN = Script((b"HTTP/1.1 200 Own\r\ncontent-length: 3\r\n\r\nown",))


@dataclass(frozen=True)
class Answer:
    """A proper response: its bytes, where its head ends, and what it says."""

    method: bytes
    interims: bytes
    head: bytes
    tail: tuple[tuple[bytes, bytes], ...]  # (bytes on the wire, bytes of the body in them)
    status: int
    reason: bytes
    headers: Pairs
    trailers: Pairs
    until_close: bool
    reusable: bool

    @property
    def raw(self) -> bytes:
        return self.interims + self.head + b"".join(wire for wire, _ in self.tail)

    @property
    def head_end(self) -> int:
        return len(self.interims) + len(self.head)

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.tail)

    def body_within(self, size: int) -> bytes:
        """The body's bytes among the first `size` of the response's."""
        left, got = size - self.head_end, b""
        for wire, data in self.tail:
            if left <= 0:
                break
            if data:
                got += data[:left]
            left -= len(wire)
        return got


tokens = st.text("abcXYZ-19", min_size=1, max_size=8).map(str.encode)
values = st.one_of(
    st.sampled_from([b"", b"1", b"chunked", b"close", b"a: b", b"\xe4\xff", b"x" * 300]),
    st.text("ab ,;=\"'", max_size=12).map(lambda text: text.strip().encode()),
)
fields = st.lists(st.tuples(tokens.map(lambda name: b"x-" + name), values), max_size=3)
bodies = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
            b"data: x\n\n" * 200,
            b"\r\n\r\n",
            b"a" * 70_000,
        ]
    ),
)
extensions = st.sampled_from([b"", b";a", b";a=1;b", b';q="a b"'])
interims = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 102 Processing\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=x\r\nlink: </b>\r\n\r\n",
            b"HTTP/1.1 104 Upload\r\nx: 1\r\n\r\n",
            b"HTTP/1.1 199 Odd\r\n\r\n",
        ]
    ),
    max_size=2,
).map(b"".join)


def lines(pairs: Pairs) -> bytes:
    return b"".join(b"%b: %b\r\n" % pair for pair in pairs)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    method = draw(st.sampled_from([b"GET", b"GET", b"GET", b"HEAD"]))
    status = draw(st.sampled_from([200, 200, 200, 204, 304, 404, 500, 299]))
    reason = draw(st.sampled_from([b"OK", b"", b"Not  quite, really", b"\xc3\xa4"]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    connection = draw(st.sampled_from([None, None, b"close", b"keep-alive", b"x, Close"]))
    body = draw(bodies)
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if version == b"1.0" and framing == "chunked":
        framing = "length"
    bodiless = method == b"HEAD" or status in (204, 304)
    headers = draw(fields)
    trailers: Pairs = []
    tail: list[tuple[bytes, bytes]] = []
    if connection is not None:
        headers.insert(draw(st.integers(0, len(headers))), (b"Connection", connection))
    if framing == "length":
        headers.insert(draw(st.integers(0, len(headers))), (b"Content-Length", b"%d" % len(body)))
        tail = [(body, body)]
    elif framing == "chunked":
        headers.insert(draw(st.integers(0, len(headers))), (b"Transfer-Encoding", b"chunked"))
        for piece in cut(body, draw(st.lists(st.integers(0, 100_000), max_size=3))):
            if piece:
                tail.append((b"%x%b\r\n" % (len(piece), draw(extensions)), b""))
                tail += [(piece, piece), (b"\r\n", b"")]
        trailers = draw(fields)
        tail.append((b"0%b\r\n%b\r\n" % (draw(extensions), lines(trailers)), b""))
    else:
        tail = [(body, body)]
    if bodiless:
        tail, trailers = [], []
    until_close = framing == "close" and not bodiless
    persistent = connection == b"keep-alive" or (
        version == b"1.1" and (connection is None or b"lose" not in connection)
    )
    head = b"HTTP/%b %d %b\r\n%b\r\n" % (version, status, reason, lines(headers))
    return Answer(
        method=method,
        interims=draw(interims) if version == b"1.1" else b"",
        head=head,
        tail=tuple(tail),
        status=status,
        reason=reason,
        headers=headers,
        trailers=trailers,
        until_close=until_close,
        # Of an answer to HEAD the parser cannot know that no body follows where no length does.
        reusable=persistent and not (framing == "close" and status not in (204, 304)),
    )


cuts = st.lists(st.integers(0, 100_000), max_size=6)
full = st.lists(st.booleans(), max_size=6)


def by_h11(answer: Answer, raw: bytes) -> Outcome | None:
    """What h11 makes of these bytes and a FIN behind them; None if it takes them for broken."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1_000_000)
    reader.send(h11.Request(method=answer.method, target="/", headers=[("host", "x")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(raw)
    got, ended = Outcome(), False
    try:
        while True:
            event = reader.next_event()
            if event is h11.NEED_DATA:
                if ended:
                    return None
                ended = True
                reader.receive_data(b"")
            elif isinstance(event, h11.Response):
                got.status, got.reason = event.status_code, bytes(event.reason)
            elif isinstance(event, h11.Data):
                got.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                got.trailers = [(bytes(k), bytes(v)) for k, v in event.headers.raw_items()]
                return got
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return None
    except h11.RemoteProtocolError:
        return None


@short
@given(st.lists(st.tuples(answers(), cuts, full), min_size=1, max_size=4))
def test_proper_answers_in_any_pieces(exchanges: list[tuple[Answer, list[int], list[bool]]]):
    """Each gets its own, byte for byte; and a connection is used again if and only if it may be."""
    connections: list[list[Script]] = [[]]
    for answer, at, _ in exchanges:
        end = "stay" if answer.reusable or not answer.until_close else "fin"
        connections[-1].append(Script(cut(answer.raw, at), end))  # type: ignore[arg-type]
        if not answer.reusable:
            connections.append([])

    async def scenario() -> None:
        upstream = FedUpstream(connections)
        for answer, _, pattern in exchanges:
            got = await exchange(upstream, answer.method, pattern)
            assert got == Outcome(
                answer.status, answer.reason, answer.headers, answer.body, answer.trailers
            )
            read = by_h11(answer, answer.raw)
            assert read is not None
            assert (read.status, read.body) == (got.status, got.body)
        used = [len(scripts) for scripts in connections if scripts]
        # A sink that was full to the last may cost a connection, never an answer.
        assert [cable.answered for cable in upstream.cables] == used
        await upstream.aclose()

    run_in_jumping_time(scenario())


@short
@given(answers(), st.integers(0, 100_000), st.sampled_from(["fin", "rst"]), cuts, full)
def test_answers_that_are_cut(
    answer: Answer, place: int, end: str, at: list[int], pattern: list[bool]
):
    """The beginning of a body and a fault; a body until the close ends wherever the FIN is."""
    raw = answer.raw
    size = place % (len(raw) + 1)
    assume(size < len(raw) or answer.until_close)
    script = Script(cut(raw[:size], at), end)  # type: ignore[arg-type]

    async def scenario() -> None:
        upstream = FedUpstream([[script], [OWN]])
        got = await exchange(upstream, answer.method, pattern)
        if size < answer.head_end:
            assert got.fault is NoAnswer
        else:
            whole = answer.until_close and end == "fin"
            assert got.fault is (None if whole else StreamBroken)
            assert got.body == answer.body_within(size)
        await quiet(upstream)
        assert (await exchange(upstream)).body == b"own"
        await upstream.aclose()

    run_in_jumping_time(scenario())


mutations = st.tuples(
    st.sampled_from(["replace", "insert", "delete", "double", "append"]),
    st.integers(0, 100_000),
    st.one_of(
        st.sampled_from(
            [
                b"\r", b"\n", b"\r\n", b"\x00", b" ", b"0", b"9", b"ffffffffffffffff", b":", b";",
                b"-", b"+", b"\t", b"chunked", b"Content-Length: 1\r\n", b"content-length: 0\r\n",
                b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: gzip, chunked\r\n",
                b"connection: upgrade\r\nupgrade: h2c\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
                b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
                b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b"1", b"HTTP/2.0 200 \r\n",
            ]
        ),
        st.binary(min_size=1, max_size=3),
    ),
)  # fmt: skip


def mutated(raw: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for how, where, data in changes:
        place = where % (len(raw) + 1)
        if how == "replace":
            raw = raw[:place] + data + raw[place + len(data) :]
        elif how == "insert":
            raw = raw[:place] + data + raw[place:]
        elif how == "delete":
            raw = raw[:place] + raw[place + 1 + where % 3 :]
        elif how == "double":
            raw += raw
        else:
            raw += data
    return raw


@short
@given(
    answers(),
    st.lists(mutations, min_size=1, max_size=3),
    cuts,
    full,
    st.sampled_from(["fin", "rst", "stay"]),
)
def test_corrupted_answers(
    answer: Answer,
    changes: list[tuple[str, int, bytes]],
    at: list[int],
    pattern: list[bool],
    end: str,
):
    """An end always comes, and the next request's answer is its own; and where h11 takes the same
    bytes for a whole response too, both read the same body."""
    raw = mutated(answer.raw, changes)
    script = Script(cut(raw, at), end)  # type: ignore[arg-type]

    async def scenario() -> None:
        # The same connection would answer the second request as a fresh one does.
        upstream = FedUpstream([[script, OWN], [OWN]])
        got = await exchange(upstream, answer.method, pattern)
        if got.fault is None and end != "rst":
            read = by_h11(answer, raw)
            if read is not None:
                assert (read.status, read.body) == (got.status, got.body)
        await quiet(upstream)
        own = await exchange(upstream)
        assert (own.status, own.reason, own.body, own.fault) == (200, b"Own", b"own", None)
        await upstream.aclose()

    run_in_jumping_time(scenario())

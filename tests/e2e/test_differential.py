"""The gate and nginx between the same clients and the same lane: the same bytes, up and down.

But for the documented list, which `docs/reference/headers.md` has for the gate, and `normalised`
here for both.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from specgate.core.headers import HOP_BY_HOP, Pairs
from tests.support.client import RawClient, Response, chunked
from tests.support.lanes import Connection, Fin, Request, Script, ScriptedLane, Send, chunk, head
from tests.support.nginx import nginx_before
from tests.support.process import serve_process

CASES = 320
SEED = 3

OURS = (b"x-request-id", b"x-specgate-", b"x-accel-buffering")

METHODS = [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD", b"PROPFIND", b"QUERY"]
SEGMENTS = [
    *(b"v1", b"models", b"org%2Fname", b"a%20b", b"%25", b"%C3%A9", b"+", b";v=1", b"x.y", b"%2e"),
    *(b"~!$&'()*,:@", b"%7E", b"a=b", b"_-", b"%41", b"", b"UPPER", b"0" * 300),
]
QUERIES = [
    *(b"", b"?a=1&a=2&b=%2F&c&d=", b"?", b"??", b"?x=%zz%&y", b"?q=a+b%20c", b"?/../..", b"?a?b#c"),
    *(b"?" + b"k=v&" * 300, b"?%00%0d%0a", b'?x=[1]&y={2}|`^"<>'),
]
NAMES = [b"X-A", b"x-b", b"X-LOUD", b"accept", b"Accept", b"Cookie", b"User-Agent", b"x_y", b"x.z!"]
VALUES = [
    *(
        b"1",
        b"",
        b"a, b",
        b"\xe4\xb8\xad",
        b"\xff\xe9",
        b'"q;\\"',
        b"x" * 2000,
        b"a\tb",
        b"k=v; l=w",
    ),
    *(b"a:b", b"%0d%0a", b"*/*", b"#", b"  inner  blanks"),
]
HOPS = [(b"TE", b"trailers"), (b"Keep-Alive", b"timeout=5"), (b"Upgrade", b"h2c")]
REASONS = {
    200: b"OK",
    201: b"Made",
    206: b"Part",
    404: b"Not Here",
    429: b"Slow Down",
    500: b"Oh No",
}
ANSWER_NAMES = [b"X-A", b"x-b", b"Set-Cookie", b"Cache-Control", b"Vary", b"Retry-After", b"X-LOUD"]


@dataclass(frozen=True)
class Case:
    number: int
    method: bytes
    target: bytes
    headers: Pairs
    body: bytes | None
    chunks: tuple[bytes, ...] | None
    answer: Script

    def raw(self) -> bytes:
        pairs = list(self.headers)
        if self.chunks is not None:
            pairs.append((b"Transfer-Encoding", b"chunked"))
        elif self.body is not None:
            pairs.append((b"Content-Length", b"%d" % len(self.body)))
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target), b"Host: public.example"]
        lines += [name + b": " + value for name, value in pairs]
        tail = (self.body or b"") if self.chunks is None else chunked(*self.chunks)
        return b"\r\n".join(lines) + b"\r\n\r\n" + tail


def cases(rng: random.Random) -> list[Case]:
    return [case(number, rng) for number in range(CASES)]


def case(number: int, rng: random.Random) -> Case:
    method = rng.choice(METHODS)
    path = b"/v1/" + b"/".join(rng.choices(SEGMENTS, k=rng.randint(1, 4)))
    headers = [(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randint(0, 8))]
    if rng.random() < 0.2:
        headers.append(rng.choice(HOPS))
    headers.insert(rng.randint(0, len(headers)), (b"X-Case", b"%d" % number))
    body: bytes | None = None
    chunks: tuple[bytes, ...] | None = None
    match rng.choice(["none", "length", "chunked"]):
        case "length":
            body = rng.randbytes(rng.choice([0, 1, 100, 70_000, 400_000]))
        case "chunked":
            pieces = [rng.randbytes(rng.choice([1, 10, 5000])) for _ in range(rng.randint(0, 6))]
            chunks, body = tuple(pieces), b"".join(pieces)
    return Case(
        number, method, path + rng.choice(QUERIES), headers, body, chunks, answer(method, rng)
    )


def answer(method: bytes, rng: random.Random) -> Script:
    pairs = [(rng.choice(ANSWER_NAMES), rng.choice(VALUES)) for _ in range(rng.randint(0, 6))]
    if rng.random() < 0.7:
        types = [b"application/json", b"text/plain; charset=x", b"application/x-ndjson"]
        pairs.append((b"Content-Type", rng.choice(types)))
    if rng.random() < 0.3:
        pairs += [(b"Server", b"engine/1"), (b"Date", b"Mon, 01 Jan 2024 00:00:00 GMT")]
    if rng.random() < 0.1:
        return Send(head(rng.choice([204, 304]), [(b"X-A", b"1")]))
    status = rng.choice(list(REASONS))
    body = rng.randbytes(rng.choice([0, 1, 1000, 300_000]))
    shape = rng.choice(["length", "length", "chunked", "close", "short", "cut"])
    framing = {
        "length": [(b"Content-Length", b"%d" % len(body))],
        "short": [(b"Content-Length", b"%d" % (len(body) + 10))],
        "close": [],
    }.get(shape, [(b"Transfer-Encoding", b"chunked")])
    lines = [b"HTTP/1.1 %d %b" % (status, REASONS[status])]
    lines += [name + b": " + value for name, value in pairs + framing]
    start = b"\r\n".join(lines) + b"\r\n\r\n"
    if method == b"HEAD":
        return Send(start) if shape in ("length", "chunked") else [Send(start), Fin()]
    coded = b"".join(chunk(body[at : at + 7000]) for at in range(0, len(body), 7000))
    match shape:
        case "length":
            return Send(start + body)
        case "chunked":
            return Send(start + coded + b"0\r\n\r\n")
        case "cut":
            return [Send(start + coded), Fin()]
        case _:
            return [Send(start + body), Fin()]


def normalised(pairs: Pairs, *dropped: bytes) -> Pairs:
    """Without what means one hop only, and what the gate makes anew."""
    return [
        (name, value.strip(b" \t"))
        for name, value in pairs
        if (lower := name.lower()) not in HOP_BY_HOP
        and not lower.startswith(OURS)
        and lower not in dropped
    ]


def arrived(request: Request) -> tuple[bytes, bytes, Pairs, bytes]:
    """What a lane makes of a request, in order and spelling. Host is the lane's own. The framing is
    each proxy's: nginx tells the length of a chunked body that it has whole."""
    rest = normalised(request.headers, b"host", b"content-length")
    return request.method, request.target, rest, request.body


def returned(reply: Response, sent: Pairs) -> tuple[bytes, Counter[tuple[bytes, bytes]]]:
    """What a client makes of a response. nginx sorts the headers and spells the common ones its own
    way, says who it is and when, and drops the type of a response that has no body."""
    dropped = [name for name in (b"server", b"date") if not any(n.lower() == name for n, _ in sent)]
    if reply.status in (204, 304):
        dropped += [b"content-type", b"content-length", b"last-modified"]
    pairs = normalised(reply.headers, *dropped)
    return reply.status_line, Counter((name.lower(), value) for name, value in pairs)


class Speaker:
    """One client of one proxy: on one connection, as long as that lasts."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._client: RawClient | None = None

    async def ask(self, case: Case) -> Response:
        assert self._parts.hostname
        assert self._parts.port
        if self._client is None:
            self._client = await RawClient.open(self._parts.hostname, self._parts.port)
        client = self._client
        sending = asyncio.ensure_future(client.send(case.raw()))
        line, pairs = await client.read_head()
        if case.method == b"HEAD":
            client.status = 204  # no body, whatever its head says
        body = await client.read_body()
        await sending
        closing = any(
            (name.lower(), value.lower()) == (b"connection", b"close") for name, value in pairs
        )
        if closing or not body.clean or body.ending == "close":
            await self.close()
        return Response(int(line.split(b" ")[1]), line, pairs, body)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def sent_pairs(answer: Script) -> Pairs:
    first = answer if isinstance(answer, Send) else answer[0]  # type: ignore[index]
    assert isinstance(first, Send)
    lines = first.data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [(name, value) for name, _, value in (line.partition(b":") for line in lines)]


@pytest.mark.timeout(120)
async def test_same_bytes_as_through_nginx(tmp_path: Path):
    table = {case.number: case for case in cases(random.Random(SEED))}

    async def play(request: Request, connection: Connection) -> None:
        number = request.value(b"x-case")
        assert number is not None
        await connection.perform(table[int(number)].answer)

    async with ScriptedLane("lane") as lane:
        lane.answer("*", play)
        environ = {"SPECGATE_SPEC_URL": lane.url, "SPECGATE_PLAIN_URL": lane.url}
        async with (
            nginx_before(lane.url, tmp_path) as nginx_url,
            serve_process(environ) as gate,
        ):
            nginx, ours = Speaker(nginx_url), Speaker(gate.url)
            differing = []
            for number, case in table.items():
                lane.requests.clear()
                theirs = await nginx.ask(case)
                up = [arrived(request) for request in lane.requests]
                lane.requests.clear()
                mine = await ours.ask(case)
                got = [arrived(request) for request in lane.requests]
                if difference := compare(case, up, got, theirs, mine):
                    differing.append((number, difference, case.raw()[:300]))
            await nginx.close()
            await ours.close()
            assert differing == []


Arrivals = list[tuple[bytes, bytes, Pairs, bytes]]


def compare(case: Case, up: Arrivals, got: Arrivals, theirs: Response, mine: Response) -> object:
    """What differs, None if nothing does."""
    if up != got:
        return up, got
    sent = sent_pairs(case.answer)
    if returned(theirs, sent) != returned(mine, sent):
        return returned(theirs, sent), returned(mine, sent)
    if (theirs.body.clean, theirs.body.data) != (mine.body.clean, mine.body.data):
        return theirs.body.ending, mine.body.ending, len(theirs.body.data), len(mine.body.data)
    return None

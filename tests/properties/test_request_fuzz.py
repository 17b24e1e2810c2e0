"""What clients send, whole and broken, in any pieces: read as `requests_oracle` reads it, or not.

FUZZ_EXAMPLES=20000 looks harder than CI does.
"""

import asyncio
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgate.proxy.head import HEAD_LIMIT
from specgate.proxy.limits import Limits
from tests.support.requests_oracle import METHODS, Asked, Reader
from tests.support.wired import Pipe, Recording, converse

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))

hard = settings(max_examples=EXAMPLES, deadline=None)

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
TARGET = "/%2Ff+;=&?#~!$'()*,:@|^`\"{}[]<>\\abzAZ09._-"
FRAMING = {b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect"}


def ascii_text(alphabet: str, min_size: int = 0, max_size: int = 20) -> st.SearchStrategy[bytes]:
    return st.text(alphabet, min_size=min_size, max_size=max_size).map(str.encode)


names = ascii_text(TOKEN, 1).filter(lambda name: name.lower() not in FRAMING)
values = (
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"))
    .map(lambda text: re.sub("[\x80-\x9f]", "x", text).encode("latin-1").strip(b" \t"))
    .filter(lambda value: len(value) < 200)
)
targets = st.one_of(
    ascii_text(TARGET).map(lambda rest: b"/" + rest),
    st.just(b"/v1/chat/completions"),
)
extensions = st.sampled_from([b"", b";a", b";a=b", b';a="b c";d', b";a=b;c=d"])
trailers = st.lists(st.tuples(names, values), max_size=3)


def spelled(draw: st.DrawFn, name: bytes) -> bytes:
    return draw(st.sampled_from([name, name.lower(), name.upper()]))


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Asked]:
    """A good request: its bytes, and what they say."""
    method = draw(st.sampled_from(METHODS))
    target = draw(targets)
    old = draw(st.booleans()) and draw(st.booleans())
    pairs = draw(st.lists(st.tuples(names, values), max_size=6))
    framed = [] if old and draw(st.booleans()) else [(spelled(draw, b"Host"), b"h")]
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["none", "length", "chunked"]))
    if framing == "none" or (framing == "chunked" and old):
        body, raw_body = b"", b""
    elif framing == "length":
        raw_body = body
        zeros = draw(st.sampled_from([b"", b"000"]))
        framed.append((spelled(draw, b"Content-Length"), zeros + b"%d" % len(body)))
    else:
        framed.append((spelled(draw, b"Transfer-Encoding"), spelled(draw, b"chunked")))
        raw_body = draw_chunks(draw, body)
    keep_alive = not old
    match draw(st.sampled_from(["", "", "keep-alive", "close", "offer"])):
        case "keep-alive":
            framed.append((b"Connection", spelled(draw, b"keep-alive")))
            keep_alive = True
        case "close":
            framed.append((b"Connection", spelled(draw, b"close")))
            keep_alive = False
        case "offer":
            framed += [(b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c")]
    if draw(st.booleans()):
        framed.append((b"Expect", b"100-continue"))
    for pair in framed:
        pairs.insert(draw(st.integers(0, len(pairs))), pair)
    blank = draw(st.sampled_from([b"", b" ", b"\t ", b"  "]))
    absolute = draw(st.sampled_from([b"", b"", b"", b"http://h:1", b"HTTP://u:p@h"]))
    lines = [b"%b %b HTTP/1.%d\r\n" % (method, absolute + target, not old)]
    lines += [name + b":" + blank + value + b"\r\n" for name, value in pairs]
    raw = b"".join([*lines, b"\r\n", raw_body])
    return raw, Asked(method, target, pairs, body, keep_alive)


def draw_chunks(draw: st.DrawFn, body: bytes) -> bytes:
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    raw = b""
    for piece in filter(None, pieces):
        size = draw(st.sampled_from([b"%x", b"%X", b"00%x"])) % len(piece)
        raw += size + draw(extensions) + b"\r\n" + piece + b"\r\n"
    last = draw(st.sampled_from([b"0", b"000"])) + draw(extensions) + b"\r\n"
    tail = b"".join(name + b": " + value + b"\r\n" for name, value in draw(trailers))
    return raw + last + tail + b"\r\n"


@st.composite
def pieces_of(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes, cut anywhere."""
    if len(data) < 2000 and draw(st.integers(0, 9)) == 0:
        return [bytes([byte]) for byte in data]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return [piece for piece in pieces if piece]


def statuses(pipe: Pipe) -> list[int]:
    """Of the final responses, in order; a response's body is short, and has no line of its own."""
    found = re.findall(rb"HTTP/1\.1 (\d{3}) ", bytes(pipe.written))
    return [int(status) for status in found if status != b"100"]


def converse_now(pieces: list[bytes], limits: Limits | None = None) -> tuple[Recording, Pipe]:
    return asyncio.run(converse(pieces, limits))


@hard
@given(st.data())
def test_good_requests_are_carried_as_they_are(data: st.DataObject):
    sent = data.draw(st.lists(requests(), min_size=1, max_size=5))
    raw = b"".join(each for each, _ in sent)
    expected = []
    for _, asked in sent:
        expected.append(asked)
        if not asked.keep_alive:
            break
    # Nothing behind a client's own last word.
    raw = b"".join(each for each, _ in sent[: len(expected)])
    forwarder, pipe = converse_now(data.draw(pieces_of(raw)))
    check_equal(forwarder.carried, expected)
    assert forwarder.refused == []
    assert statuses(pipe) == [200] * len(expected)
    assert pipe.ended is not expected[-1].keep_alive


def check_equal(carried: list[Asked], expected: list[Asked]) -> None:
    for got, want in zip(carried, expected, strict=True):
        assert (got.method, got.target, got.body) == (want.method, want.target, want.body)
        assert got.headers == want.headers


def check_against_oracle(raw: bytes, pieces: list[bytes]) -> None:
    """What the gate carries is what the oracle reads, up to where it reads no more."""
    forwarder, pipe = converse_now(pieces)
    oracle = Reader(raw)
    count = len(forwarder.carried)
    assert count <= len(oracle.asked), (raw, forwarder.carried[len(oracle.asked) :])
    check_equal(forwarder.carried, oracle.asked[:count])
    answered = statuses(pipe)
    assert answered[:count] == [200] * count
    assert len(answered) <= count + 1
    if oracle.end == "bad" and count == len(oracle.asked):
        assert pipe.ended or answered[count:] == [], raw
    if count < len(oracle.asked) and oracle.end != "short":
        # Stricter than the oracle is allowed, silent is not.
        assert answered[count:] != [], raw
    if pipe.ended and answered[count:]:
        assert answered[-1] >= 400


mutations = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b" ", b"\t", b"\0", b"\x0b", b":", b",", b";", b"0", b"f", b"-"),
        *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: h\r\n"),
        *(b"\r\n\r\n", b" chunked", b"x", b"\xff", b"HTTP/1.1", b"0\r\n\r\n", b"#", b"\x7f"),
    ]
)


@hard
@given(st.data())
def test_broken_requests_are_read_in_one_way_or_refused(data: st.DataObject):
    sent = data.draw(st.lists(requests(), min_size=1, max_size=3))
    raw = bytearray(b"".join(each for each, _ in sent))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        gone = data.draw(st.sampled_from([0, 0, 1, 2, 5]))
        raw[at : at + gone] = data.draw(st.one_of(mutations, st.just(b"")))
    check_against_oracle(bytes(raw), data.draw(pieces_of(bytes(raw))))


LINES = [
    *(b"GET / HTTP/1.1", b"POST /x HTTP/1.1", b"POST / HTTP/1.0", b"GET / HTTP/2.0", b"GET /"),
    *(b"OPTIONS * HTTP/1.1", b"GET * HTTP/1.1", b"CONNECT h:1 HTTP/1.1", b"TRACE / HTTP/1.1"),
    *(b"GET http://h HTTP/1.1", b"GET http://h?x=/y HTTP/1.1", b"GET http://h#/y HTTP/1.1"),
    *(b"get / HTTP/1.1", b"POST  /x  HTTP/1.1", b"GET x HTTP/1.1", b"PRI * HTTP/2.0"),
]
FIELDS = [
    *(b"Host: h", b"host: h", b"Host : h", b" folded", b"no colon", b": no name", b"A: b\0", b"A:"),
    *(b"Content-Length: 5", b"content-length: 5", b"Content-Length: 0", b"Content-Length: +5"),
    *(b"Content-Length: 5, 5", b"Content-Length: 18446744073709551621", b"Content-Length: 005"),
    *(b"Transfer-Encoding: chunked", b"transfer-encoding: Chunked", b"Transfer-Encoding:"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: ,chunked"),
    *(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked, identity"),
    *(b"Connection: keep-alive", b"Connection: close", b"Connection: Upgrade", b"Upgrade: h2c"),
    *(b"Upgrade: websocket", b"Expect: 100-continue", b"Connection: keep-alive, close"),
]
BODIES = [
    *(
        b"hello",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"5;x=y\r\nhello\r\n",
        b"0\r\nX-T: 1\r\n\r\n",
        b"0\r\n\r\n",
    ),
    *(b"5\nhello\r\n", b"-1\r\n", b"5\r\nhello0\r\n", b"\r\n", b"\n", b"0\r\n", b"+0\r\n\r\n"),
    *(b"0\r\nContent-Length: 5\r\n\r\n", b"10000000000000000\r\n", b"0 \r\n\r\n"),
]


@st.composite
def odd_requests(draw: st.DrawFn) -> bytes:
    """Of the right shape, from parts that do not go together; mostly one of them is odd."""
    end = draw(st.sampled_from([b"\r\n"] * 9 + [b"\n"]))
    lines = [draw(st.sampled_from(LINES[:3] * 5 + LINES)), *draw(st.lists(some_field, max_size=3))]
    if draw(st.integers(0, 5)):
        lines.insert(1, b"Host: h")
    bodies = draw(st.lists(st.sampled_from(BODIES), max_size=2))
    return b"".join([*(line + b"\r\n" for line in lines[:-1]), lines[-1] + end, b"\r\n", *bodies])


some_field = st.sampled_from(FIELDS)


@hard
@given(st.lists(odd_requests(), min_size=1, max_size=3), st.data())
def test_odd_requests_are_read_in_one_way_or_refused(sent: list[bytes], data: st.DataObject):
    raw = b"".join(sent)
    check_against_oracle(raw, data.draw(pieces_of(raw)))


@hard
@given(st.binary(max_size=400), st.data())
def test_any_bytes_at_all(raw: bytes, data: st.DataObject):
    check_against_oracle(raw, data.draw(pieces_of(raw)))


@settings(max_examples=max(10, EXAMPLES // 10), deadline=None)
@given(st.integers(-5, 5), st.data())
def test_bodies_around_the_limit(off: int, data: st.DataObject):
    """The limit is exact, for both framings, however they are cut."""
    limit = 200
    body = b"x" * (limit + off)
    chunked = data.draw(st.booleans())
    if chunked:
        raw = b"Transfer-Encoding: chunked\r\n\r\n" + data.draw(chunks_of(body))
    else:
        raw = b"Content-Length: %d\r\n\r\n" % len(body) + body
    raw = b"POST / HTTP/1.1\r\nHost: h\r\n" + raw
    forwarder, pipe = converse_now(data.draw(pieces_of(raw)), Limits(body_bytes=limit))
    assert statuses(pipe) == [413 if off > 0 else 200]
    assert len(forwarder.carried) == (off <= 0)


@st.composite
def chunks_of(draw: st.DrawFn, body: bytes) -> bytes:
    return draw_chunks(draw, body)


@settings(max_examples=max(10, EXAMPLES // 10), deadline=None)
@given(st.integers(-3, 3), st.data())
def test_heads_around_the_limit(off: int, data: st.DataObject):
    """So is a head's, by what its line and its headers hold."""
    fixed = len(b"/") + len(b"Host") + len(b"h") + 4 + len(b"X") + 4
    raw = b"GET / HTTP/1.1\r\nHost:h\r\nX:" + b"x" * (HEAD_LIMIT - fixed + off) + b"\r\n\r\n"
    forwarder, pipe = converse_now(data.draw(pieces_of(raw)))
    assert statuses(pipe) == [431 if off > 0 else 200]
    assert len(forwarder.carried) == (off <= 0)


GET = b"GET /v1/thing HTTP/1.1\r\nHost: h\r\n"
POST = GET.replace(b"GET", b"POST")
OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
FOUND = {
    "a slash in the query of an absolute target": b"GET http://h?x=/y HTTP/1.1\r\nHost: h\r\n\r\n",
    "HTTP/2.0 in the request line": b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "an asterisk of no OPTIONS": b"GET * HTTP/1.1\r\nHost: h\r\n\r\n",
    "a coding under the chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + GET,
    "chunks of HTTP/1.0": (POST + b"Connection: keep-alive\r\n").replace(b"1.1", b"1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length of thousands of digits": POST + b"Content-Length: " + b"0" * 5000 + b"1\r\n\r\nx",
    "a head behind a long body": POST
    + b"Content-Length: 80000\r\n\r\n"
    + b"x" * 80_000
    + GET
    + b"\r\n",
    "hundreds of offers in one read": (GET + OFFER) * 700,
    "something behind a refusal": GET + b"host: h\r\n\r\n" + GET + b"\r\n",
}


@pytest.mark.parametrize("raw", FOUND.values(), ids=FOUND.keys())
def test_what_was_found(raw: bytes):
    check_against_oracle(raw, [raw])
    size = 1 + len(raw) // 1000
    check_against_oracle(raw, [raw[at : at + size] for at in range(0, len(raw), size)])

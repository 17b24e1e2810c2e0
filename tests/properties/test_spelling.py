"""No spelling of a path is a way past the gate to what changes an engine.

The oracles are the engines' own path rules: Starlette's router behind uvicorn's reading of a target
(SGLang, vLLM), and llama.cpp's server, whose reading is written out here after cpp-httplib's
`decode_path`. Beyond them, what proxies between are known to do to a path.
"""

import re
from urllib.parse import unquote

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.routing import Match, Route

from specgate.core.routes import RouteClass
from specgate.engines.routes import ADMIN, ADMIN_BELOW, ADMIN_BUT_GET, GENERATION, classify
from specgate.engines.spelling import climbs, plainly
from specgate.proxy.head import _split

GUARDED = sorted({path for paths in ADMIN.values() for path in paths} | set(ADMIN_BUT_GET))
BELOW = [*ADMIN_BELOW, "/slots/", "/workers/"]

OWN_ROUTES = [
    Route(path, lambda request: None, methods=["GET", "POST", "PUT", "DELETE"]) for path in GUARDED
]


TAILS = ["", "", "", "/", "%0a", "%0A", "?a", "#x", ";v=1", "%00", "%20", "/.", "%23", "%3Fx"]


def gate_reads(target: bytes) -> str:
    return _split(target)[1]


def gate_sends(target: bytes) -> bytes:
    return _split(target)[0]


def starlette_takes(target: bytes, routes: list[Route] = OWN_ROUTES) -> bool:
    """Whether a route of an engine on uvicorn and Starlette is found for it."""
    try:
        raw = httptools.parse_url(target).path
        path = raw.decode("ascii")
    except (httptools.HttpParserInvalidURLError, UnicodeDecodeError, AttributeError):
        return False
    if "%" in path:
        path = unquote(path)
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "root_path": ""}
    return any(route.matches(scope)[0] is not Match.NONE for route in routes)


def httplib_path(target: bytes) -> bytes:
    """cpp-httplib: one pass over `%XX` and `%uXXXX`; what is neither stays."""
    raw = re.split(rb"[?#]", target, maxsplit=1)[0]

    def decoded(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return chr(int(found[1], 16)).encode("utf-8", "surrogatepass")
        return bytes([int(found[2], 16)])

    return re.sub(rb"%(?:u([0-9a-fA-F]{4})|([0-9a-fA-F]{2}))", decoded, raw)


def spelled(character: str) -> st.SearchStrategy[str]:
    code = ord(character)
    return st.sampled_from(
        [character] * 6 + [f"%{code:02x}", f"%{code:02X}", f"%u{code:04x}", f"%u{code:04X}"]
    )


@st.composite
def spellings(draw: st.DrawFn) -> bytes:
    """A guarded path, written otherwise; whether anybody takes it is for the oracles to say."""
    path = draw(st.sampled_from(GUARDED + [below + "0" for below in BELOW]))
    text = "".join(draw(spelled(character)) for character in path[1:])
    junk = st.sampled_from(["", "", "", "/", "//", "/.", "/./", "/x/..", "/%2e", "/;a=b", "%2f"])
    text = draw(junk) + "/" + text.replace("/", draw(st.sampled_from(["/", "//", "/./", "%2F"])))
    return (text + draw(st.sampled_from(TAILS))).encode()


@given(spellings())
@example(b"/flush_cache%0a")
@example(b"/%66lush_cache#x")
@example(b"/flush_cache?%0a")
def test_whatever_starlette_takes_for_one_the_gate_does_too(target: bytes):
    if starlette_takes(gate_sends(target)):
        assert classify("POST", gate_reads(target)) is RouteClass.ADMIN, target


@given(spellings())
@example(b"/sl%u006fts/0")
@example(b"/%u0073lots%u002f0?action=erase")
def test_whatever_llama_cpp_takes_for_one_the_gate_does_too(target: bytes):
    path = httplib_path(gate_sends(target)).decode("utf-8", "replace")
    if path in GUARDED or re.fullmatch(r"/slots/[^/]+", path):
        assert classify("POST", gate_reads(target)) is RouteClass.ADMIN, target


def test_the_oracles_take_what_made_this_necessary():
    assert starlette_takes(b"/flush_cache%0a")
    assert httplib_path(b"/sl%u006fts%u002F0%3f?a") == b"/slots/0?"
    assert not starlette_takes(b"/flush_caches")


@given(spellings())
def test_whatever_a_proxy_between_may_make_of_it(target: bytes):
    """Each spelling that is made here is a guarded path to some chain of servers."""
    assert classify("POST", gate_reads(target)) is RouteClass.ADMIN, target


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "PURGE"])
def test_no_method_is_a_way_past(method: str):
    for path in GUARDED:
        only_reads = path in ADMIN_BUT_GET and method in ("GET", "HEAD")
        expected = RouteClass.OTHER if only_reads else RouteClass.ADMIN
        assert classify(method, path) is expected, (method, path)


@pytest.mark.parametrize(
    "path",
    [
        *("//flush_cache", "/./flush_cache", "/v1/../flush_cache", "/../flush_cache"),
        *("/FLUSH_CACHE", "/flush_cache/", "/flush_cache//", "\\flush_cache", "/v1\\..\\sleep"),
        *("/flush_cache;jsessionid=1", "/v1/..;/flush_cache", "/;a/flush_cache", "/flush_cache\n"),
        *("/%66lush_cache", "/%2566lush_cache", "/%252566lush_cache", "/flush_cache\0.json"),
        *("/%2e%2e/sleep", "/sleep%00", "/sl%u0065ep", "/sleep ", "/sl\x7feep", "/ sleep"),
    ],
)
def test_known_tricks(path: str):
    assert classify("GET", path) is RouteClass.ADMIN


@pytest.mark.parametrize(
    "path",
    ["/v1/sleep", "/flush_caches", "/sleep/x", "/v1/models/sleep", "/x%2Fsleep", "/slotsx", "/"],
)
def test_what_only_looks_like_one_goes_through(path: str):
    assert classify("POST", path) is RouteClass.OTHER


@given(st.sampled_from(sorted(GENERATION)), st.data())
def test_no_spelling_that_an_engine_takes_is_load_unseen(path: str, data: st.DataObject):
    """Else a client could have the GPU and stand in no count."""
    text = "/" + "".join(data.draw(spelled(character)) for character in path[1:])
    target = (text + data.draw(st.sampled_from(["", "%0a", "#x", "?a"]))).encode()
    route = Route(path, lambda request: None, methods=["POST"])
    taken = starlette_takes(target, [route]) or httplib_path(target).decode() == path
    if taken:
        assert classify("POST", gate_reads(target)) is GENERATION[path], target


def test_plain_paths_stay_as_they_are():
    for path in [*GUARDED, *GENERATION, "/v1/models/org/name", "/"]:
        assert plainly(path) == path


@pytest.mark.timeout(10)
def test_a_hostile_path_is_read_in_time():
    for path in ("%25" * 20_000, "/" * 60_000, ";" * 60_000, "/.." * 20_000, "%" * 60_000):
        plainly(path)
        climbs(path)


def test_paths_that_climb():
    for path in ("/..", "/../x", "/a/../../x", "/a/..;b/../x", "/%2e%2e/x", "/a/\\..\\..\\x"):
        assert climbs(path), path
    for path in ("/", "/a/..", "/a/../b", "/...", "/..a", "/a/./b", "//", "/v1/models/a..b"):
        assert not climbs(path), path

"""With SPECGATE_CONTROL_READ=token nothing below /_specgate is read without the token, but for the
dashboard's page and its files; through real sockets and over both forms."""

import re

import pytest

from tests.support.client import Body, Response, connect, get, request_bytes
from tests.support.control import TOKEN, message, said
from tests.support.stage import Stage, stage

READS = (
    *("status", "switches", "history", "events", "curves"),
    *("openapi.json", "docs", "docs/files/favicon-32x32.png"),
)
CLOSED = {"admin_token": TOKEN, "control_read": "token"}
GOOD = (b"Authorization", f"Bearer {TOKEN}".encode())
WRONG = (b"Bearer wrong", b"Bearer ", b"Bearer the-token1", b"Basic dGhlLXRva2Vu", b"the-token")


def spellings(path: str) -> list[str]:
    """Ways to write the path of a read that some server takes for the same."""
    escaped = f"%{ord(path[0]):02x}{path[1:]}"
    below = [path, escaped, path.upper(), f"{path}/", f"{path}?x=1", f"{path};a=b", f"{path}%3fx"]
    below += [f"{path}%0a", f"{path}%00", f"./{path}", f"/{path}", f"ui/../{path}"]
    below += [f"ui/%2e%2e/{path}", f"ui%2f..%2f{path}", f"%2e/{path}"]
    others = [f"/%5fspecgate/{path}", f"/_SPECGATE/{path}", f"//_specgate/{path}"]
    others += [f"/_specgate%2f{path}", f"/x/../_specgate/{path}", f"http://gate/_specgate/{path}"]
    return [*(f"/_specgate/{each}" for each in below), *others]


async def asked(on: Stage, target: str, *headers: tuple[bytes, bytes]) -> Response:
    """On a connection of its own; of events the head alone."""
    async with connect(on.url) as client:
        await client.send(request_bytes(b"GET", target.encode(), headers))
        line, pairs = await client.read_head()
        endless = (b"content-type", b"text/event-stream; charset=utf-8") in pairs
        return Response(client.status, line, pairs, Body() if endless else await client.read_body())


@pytest.mark.parametrize("path", READS)
async def test_a_read_asks_for_the_token(form: str, path: str):
    async with stage(**CLOSED) as on:
        for given in (None, *WRONG):
            sent = [] if given is None else [(b"Authorization", given)]
            reply = await asked(on, f"/_specgate/{path}", *sent)
            assert reply.status == 401, given
            assert reply.values(b"www-authenticate") == [b"Bearer"]
            assert said(reply)["error"]["type"] == "authentication_error"
            assert "SPECGATE_ADMIN_TOKEN" in message(reply)
            assert TOKEN not in message(reply)
        assert (await asked(on, f"/_specgate/{path}", GOOD)).status == 200
        assert not on.plain.requests


async def test_it_asks_by_every_spelling(form: str):
    """What it does not take for its own is an engine's, and says so."""
    async with stage(**CLOSED) as on:
        for path in READS:
            for target in spellings(path):
                reply = await asked(on, target)
                assert reply.status != 200 or reply.values(b"x-specgate-lane"), target
                assert reply.status != 500, target


async def test_every_path_that_reads_is_among_these(form: str):
    """One that is added later asks too."""
    async with stage(**CLOSED) as on:
        document = said(await asked(on, "/_specgate/openapi.json", GOOD))
        reads = {path for path, methods in document["paths"].items() if "get" in methods}
        below = {path.removeprefix("/_specgate/") for path in reads if "/_specgate/" in path}
        assert below == set(READS) - {path for path in READS if "docs" in path or "." in path}
        for path in below:
            described = document["paths"][f"/_specgate/{path}"]["get"]
            assert described["security"] == [{"HTTPBearer": []}]
            assert "401" in described["responses"]


async def test_the_page_and_its_files_are_served_and_say_that_it_asks(form: str):
    async with stage(**CLOSED) as on:
        page = await asked(on, "/_specgate/ui")
        text = page.body.data.decode()
        assert page.status == 200
        assert 'data-reading="token"' in text
        assert TOKEN not in text
        files = re.findall(r'"(ui/[^"]+)"', text)
        assert files
        for name in files:
            assert (await asked(on, f"/_specgate/{name}")).status == 200


async def test_probes_metrics_and_engines_ask_nobody(form: str):
    async with stage(**CLOSED) as on:
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await get(on.url + path)).status == 200
        assert (await on.ask()).status == 200


async def test_a_gate_is_open_unless_it_is_told_otherwise(form: str):
    async with stage(admin_token=TOKEN) as on:
        for path in READS:
            assert (await asked(on, f"/_specgate/{path}")).status == 200
        page = await asked(on, "/_specgate/ui")
        assert b'data-reading="open"' in page.body.data
        document = said(await asked(on, "/_specgate/openapi.json"))
        assert "security" not in document["paths"]["/_specgate/status"]["get"]

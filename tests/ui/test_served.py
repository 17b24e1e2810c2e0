"""How the dashboard is served: by the gate alone, to itself alone, and what a cache may keep."""

import re
from html.parser import HTMLParser

import pytest

from specgate.admin.curves import ProfileCurves
from specgate.core.lanes import Lane
from tests.support.client import Response, connect, get
from tests.support.control import TOKEN, said
from tests.support.stage import Stage, stage
from tests.ui.gates import gate, weighing_gate

UI = "/_specgate/ui"


class Named(HTMLParser):
    """What a page names: `urls`, of files and links; `inline`: what no file holds."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.inline: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.urls += [url for name in ("src", "href") if (url := found.get(name))]
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        if tag in ("style", "script") and "src" not in found:
            self.inline.append(tag)


def value(reply: Response, name: bytes) -> str:
    (found,) = reply.values(name)
    return found.decode()


async def files(on: Stage) -> dict[str, Response]:
    """Each file that the page names, and each that a module of it imports."""
    page = (await get(on.url + UI)).body.data.decode()
    waiting = [url for url in Named(page).urls if url.startswith("ui/")]
    found: dict[str, Response] = {}
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = await get(f"{on.url}/_specgate/{path}")
        if path.endswith(".js"):
            folder = path.rpartition("/")[0]
            imported = re.findall(rb'from "\./([^"]+)"', found[path].body.data)
            waiting += [f"{folder}/{name.decode()}" for name in imported]
    return found


async def test_the_page_holds_no_script_or_style_and_asks_nobody_else(form):
    async with stage() as on:
        page = await get(on.url + UI)
        assert value(page, b"content-type") == "text/html; charset=utf-8"
        named = Named(page.body.data.decode())
        assert named.inline == []
        assert named.urls
        # Relative, for a proxy that serves the gate under a path of its own.
        assert not any("//" in url or url.startswith("/") for url in named.urls)
        assert not on.plain.requests
        assert not on.spec.requests


async def test_every_file_is_served_and_may_be_kept_for_good(form):
    async with stage() as on:
        found = await files(on)
        assert len(found) >= 12
        for path, reply in found.items():
            assert reply.status == 200, path
            assert "immutable" in value(reply, b"cache-control")
            assert re.fullmatch(r"ui/[0-9a-f]{16}/[\w./]+", path)
            kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
            assert value(reply, b"content-type").startswith(kind[path.rpartition(".")[2]])
            # What a browser would ask somebody else for: links in comments are none.
            assert not re.search(
                rb"""(?:import|fetch\(|url\(|@import)\s*["']?https?:""", reply.body.data
            )
        assert not on.plain.requests


@pytest.mark.parametrize("path", [UI, None], ids=["page", "module"])
async def test_no_other_site_may_frame_it_or_change_what_it_runs(path: str | None):
    async with stage() as on:
        if path is None:
            path = "/_specgate/" + next(each for each in await files(on) if each.endswith(".js"))
        reply = await get(on.url + path)
        policy = dict(
            each.strip().partition(" ")[::2]
            for each in value(reply, b"content-security-policy").split(";")
        )
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["form-action"] == "'none'"
        assert "unsafe" not in str(policy)
        assert value(reply, b"x-content-type-options") == "nosniff"
        assert value(reply, b"referrer-policy") == "no-referrer"
        assert value(reply, b"cross-origin-opener-policy") == "same-origin"


async def test_the_page_is_asked_for_anew_and_sent_only_if_it_changed(form):
    async with stage() as on, connect(on.url) as client:
        first = await client.request(b"GET", UI.encode())
        assert value(first, b"cache-control") == "no-cache"
        etag = value(first, b"etag").encode()
        again = await client.request(b"GET", UI.encode(), [(b"If-None-Match", etag)])
        assert (again.status, again.body.data) == (304, b"")
        other = await client.request(b"GET", UI.encode(), [(b"If-None-Match", b'"x"')])
        assert other.body.data == first.body.data
        head = await client.request(b"HEAD", UI.encode())
        assert (head.status, value(head, b"etag").encode()) == (200, etag)


async def test_the_page_says_whether_a_token_was_set_and_not_which():
    pages = []
    for settings in ({}, {"admin_token": TOKEN}):
        async with stage(**settings) as on:
            pages.append((await get(on.url + UI)).body.data.decode())
    assert 'data-changes="off"' in pages[0]
    assert 'data-changes="on"' in pages[1]
    assert TOKEN not in pages[1]


@pytest.mark.parametrize(
    "path",
    ["/", "/x", "/../api.py", "/{digest}/", "/{digest}/index.html", "/{digest}/../../api.py"],
)
async def test_what_is_no_file_of_it_is_not_found_and_no_engines_matter(path: str):
    async with stage() as on:
        digest = next(iter(await files(on))).split("/")[1]
        async with connect(on.url) as client:
            reply = await client.request(b"GET", (UI + path.format(digest=digest)).encode())
        assert reply.status == 404
        assert not on.plain.requests


async def test_curves_are_those_that_the_gate_weighs_by(tmp_path):
    async with weighing_gate(tmp_path) as on:
        told = ProfileCurves.model_validate(said(await get(on.url + "/_specgate/curves")))
        known = on.gate.service.gate.view().curves
        assert known is not None
        for lane in Lane:
            points = [(point.load, point.tok_s) for point in told.points[lane]]
            curve = known.of(lane)
            assert points == list(zip(curve.loads, curve.tok_s, strict=True))
        assert told.pays == [[0, round(known.first_edge, 6)]]
        assert (told.margin, told.spread) == (known.margin, None)


async def test_without_a_profile_there_are_no_curves():
    async with gate(threshold=8) as on:
        assert said(await get(on.url + "/_specgate/curves")) is None

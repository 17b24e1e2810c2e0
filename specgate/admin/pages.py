"""The dashboard at `/_specgate/ui`: files of this package, and the headers that keep it to itself.

The page asks nobody but the gate that served it, and no other page may frame it. It is asked for
anew each time; the files that it names lie under a digest of all of them, and are kept for good.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from specgate.proxy.app import OWN_ROOT

UI = f"{OWN_ROOT}/ui"

PAGE = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What is served; the page and the licences of others' files are not of these."""

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": "; ".join(_POLICY),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

Answer = Callable[[Request], Awaitable[Response]]


def ui_routes(*, changeable: bool, readable: bool) -> list[Route]:
    """The page and its files, which hold nothing of the gate's and so ask for no token.
    `changeable`: it was started with one, so that the page's controls can do something; `readable`:
    what the page reads needs none."""
    folder = files("specgate.admin") / "ui"
    served = dict(_served(folder))
    digest = _digest(served)
    page = Template((folder / PAGE).read_text("utf-8")).substitute(
        # Relative to the page: a proxy in front may serve the gate under a path of its own.
        files=f"ui/{digest}",
        changes="on" if changeable else "off",
        reading="open" if readable else "token",
    )
    # Starlette's routes, not FastAPI's: none of it is of the control surface's schema.
    return [
        Route(UI, _page(page.encode())),
        *(Route(f"{UI}/{digest}/{name}", _file(name, text)) for name, text in served.items()),
    ]


def _served(folder: Traversable, under: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        name = under + entry.name
        if entry.is_dir():
            yield from _served(entry, f"{name}/")
        elif _suffix(name) in _TYPES:
            yield name, entry.read_bytes()


def _digest(served: Mapping[str, bytes]) -> str:
    """Of all files together: a module imports the others by names that do not change."""
    found = hashlib.sha256()
    for name, text in served.items():
        found.update(f"{name}\0{len(text)}\0".encode() + text)
    return found.hexdigest()[:16]


def _page(text: bytes) -> Answer:
    etag = f'"{hashlib.sha256(text).hexdigest()[:16]}"'
    headers = {**HEADERS, "cache-control": "no-cache", "etag": etag}

    async def page(request: Request) -> Response:
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(text, headers=headers, media_type="text/html")

    return page


def _file(name: str, text: bytes) -> Answer:
    headers = {
        **HEADERS,
        "cache-control": "public, max-age=31536000, immutable",
        "content-type": _TYPES[_suffix(name)],
    }

    async def file(request: Request) -> Response:
        return Response(text, headers=headers)

    return file


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]

"""A path in its plainest spelling: what the most obliging of servers and proxies may take it for.

The gate passes a path on as it came, and whoever reads it next decides what it means:

- Starlette's routes, so SGLang's and vLLM's, also match with a line feed behind (`/sleep%0a`);
- llama.cpp's server decodes `%uXXXX` too, as browsers once wrote it (`/sl%u006fts/0`);
- proxies between join slashes, resolve dot segments, decode once more, read `\\` as `/`, and drop
  what follows a `;` in a segment; some file systems behind them know no capitals.

So what must not get past is looked for in what is left when all of that is done.
"""

import posixpath
import re
from urllib.parse import unquote

DECODED_MAX = 4
"""How often a path is decoded; no chain of servers that is known does it more often."""

_OLD_ESCAPE = re.compile(r"%u([0-9a-fA-F]{4})")
_PARAMETERS = re.compile(r";[^/]*")
_END = re.compile(r"[\0?#]")
_HIDDEN = re.compile(r"[\s\x00-\x20\x7f-\xa0]")


def plainly(path: str) -> str:
    """One slash between segments and none at the end; no dots, escapes, parameters, spaces or
    control characters, and no capitals. `path`: percent-decoded once, without the query."""
    path = _decoded(path)
    # Some server ends a path at each of these, once they are decoded.
    path = _END.split(path, maxsplit=1)[0].replace("\\", "/")
    path = _HIDDEN.sub("", _PARAMETERS.sub("", path))
    return posixpath.normpath("/" + path.strip("/")).lower()


def climbs(path: str) -> bool:
    """Whether dot segments lead above where the path begins: behind a lane's base they would lead
    out of it. `path`: as `plainly` takes it."""
    depth = 0
    for segment in _PARAMETERS.sub("", _decoded(path).replace("\\", "/")).split("/"):
        if segment == "..":
            depth -= 1
            if depth < 0:
                return True
        elif segment not in ("", "."):
            depth += 1
    return False


def _decoded(path: str) -> str:
    for _ in range(DECODED_MAX):
        if "%" not in path:
            break
        before = path
        path = unquote(_OLD_ESCAPE.sub(_character, path), errors="replace")
        if path == before:
            break
    return path


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))

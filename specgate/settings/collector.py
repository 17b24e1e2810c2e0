"""The standard variables that say where spans go, and what is wrong with them.

The exporter reads them itself (`telemetry.spans`), and would begin all the same, lose every span,
and show a malformed key in its log. So they are looked at with the settings, where SPECGATE_OTEL is
on.
"""

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

SPOKEN = "http/protobuf"

_HEADER = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+[ \t]*=[ !#-+\--:<-\[\]-~]*")
_FILES = ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")


def collector_problems(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable that is wrong. No value of one that may hold a key is in it."""
    found = []
    name, endpoint = _given(environ, "ENDPOINT")
    if endpoint and not _is_url(endpoint):
        found.append(f"{name}: must be a URL that begins with http:// or https://")
    name, headers = _given(environ, "HEADERS")
    parts = [part.strip(" \t") for part in headers.split(",")]
    if not all(_HEADER.fullmatch(part) for part in parts if part):
        found.append(f"{name}=***: must be name=value pairs, separated by commas")
    for what in _FILES:
        name, path = _given(environ, what)
        if path and not os.path.exists(path):
            found.append(f"{name}={path!r}: there is no such file")
    return found


def collector_advice(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is asked for and not done."""
    name, protocol = _given(environ, "PROTOCOL")
    if protocol in ("", SPOKEN):
        return ()
    told = f"{name}={protocol!r} is not followed: spans go out as {SPOKEN}, to a port for that"
    return (told,)


def _given(environ: Mapping[str, str], what: str) -> tuple[str, str]:
    """The variable that holds, and its value; empty where none is set."""
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{what}", f"OTEL_EXPORTER_OTLP_{what}")
    return next(((name, environ[name]) for name in names if environ.get(name)), (names[1], ""))


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False

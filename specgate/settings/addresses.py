"""Kinds of settings that are addresses: a lane's URL, and the host to listen on."""

import errno
import ipaddress
import os
import re
import socket
from urllib.parse import urlsplit

from specgate.settings.kinds import MASK, Kind, quoted

_ONE_URL = "a lane is one URL; put a balancer in front of several replicas"
_NO_USER = (
    "must not hold a user name or password; clients' Authorization headers reach the engine as sent"
)
_NO_QUERY = "must not hold a query or fragment (? or #)"


def _read_lane_url(written: object) -> str:
    if isinstance(written, list) or (isinstance(written, str) and _several(written)):
        raise ValueError(_ONE_URL)
    # urlsplit drops tabs and newlines in silence, so what may stand in a URL is said first.
    if not isinstance(written, str) or not re.fullmatch(r"[!-\[\]-~]+", written):
        raise ValueError(f"must be {LANE_URL.allowed}")
    if "@" in written:
        raise ValueError(_NO_USER)
    if "?" in written or "#" in written:
        raise ValueError(_NO_QUERY)
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        raise ValueError(f"must be {LANE_URL.allowed}") from None
    host_ok = is_host(parts.hostname or "") and not parts.netloc.endswith(":")
    if parts.scheme not in {"http", "https"} or not host_ok or port == 0:
        raise ValueError(f"must be {LANE_URL.allowed}")
    # The client's path begins with a slash of its own.
    return written.rstrip("/")


def _several(text: str) -> bool:
    return "," in text or ";" in text or text.count("://") > 1


def _show_url(written: object) -> str:
    """Without what may be a secret: all before an @, and all from a ? or # on."""
    text = written if isinstance(written, str) else quoted(written)
    text = re.sub(r"(?s)^(\w+://)?.*@", rf"\1{MASK}@", text)
    text = re.sub(r"(?s)([?#]).*", rf"\1{MASK}", text)
    return quoted(text) if isinstance(written, str) else text


LANE_URL = Kind(
    allowed="an http:// or https:// URL with a host, such as http://10.0.0.5:8000",
    read=_read_lane_url,
    show=_show_url,
)


def is_host(text: str) -> bool:
    """Whether it is an IP address (IPv6 without brackets) or can be a host name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # A name whose last label is a number is an IPv4 address gone wrong.
        name = (
            r"([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*(?!\d+\.?$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.?"
        )
        return len(text) <= 253 and re.fullmatch(name, text, re.ASCII | re.IGNORECASE) is not None
    return True


def _read_host(written: object) -> str:
    if not isinstance(written, str) or not is_host(written):
        raise ValueError(f"must be {HOST.allowed}")
    return written


HOST = Kind(
    allowed="an IP address or a host name, without scheme, port or brackets", read=_read_host
)


def cannot_listen(
    error: OSError, *, host: str, port: int, host_setting: str, port_setting: str
) -> str:
    """Why an address cannot be had, in one line that names the setting that would have to change:
    `host_setting`, `port_setting`, variables' names."""
    if isinstance(error, socket.gaierror):
        return f"{host_setting}={host!r}: {(error.strerror or str(error)).lower()}"
    # The event loop's own words repeat the address, in its own way.
    why = os.strerror(error.errno).lower() if error.errno else str(error)
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host_setting}={host!r}: no address of this machine ({why})"
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{port_setting}={port}: cannot listen on {shown}: {why}"

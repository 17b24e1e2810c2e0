"""RFC 9112 as a reader that takes nothing on trust: an oracle for what a client sends.

It reads whole bytes at once, without llhttp, and stops at the first thing that can be read in two
ways. What the gate accepts must be what this accepts, in order; the gate may refuse more.
"""

import re
from dataclasses import dataclass, field

from specgate.core.headers import Pairs

METHODS = (
    *(b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"PROPFIND", b"REPORT"),
    *(b"QUERY", b"COPY", b"LOCK", b"UNLOCK", b"MOVE", b"MKCOL", b"PROPPATCH", b"SEARCH", b"BIND"),
    *(b"REBIND", b"UNBIND", b"ACL", b"MKACTIVITY", b"CHECKOUT", b"MERGE", b"M-SEARCH", b"NOTIFY"),
    *(b"SUBSCRIBE", b"UNSUBSCRIBE", b"PURGE", b"MKCALENDAR", b"LINK", b"UNLINK", b"SOURCE"),
)

_LINE = re.compile(rb"([A-Z-]+) +([!-~]+) +HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")
_SIZE = re.compile(rb"([0-9A-Fa-f]+)((?:;[\t -~\x80-\xff]*)?)")
_ABSOLUTE = re.compile(rb"[A-Za-z]+://[^/?#]*")


@dataclass
class Asked:
    """One request, read."""

    method: bytes
    target: bytes
    headers: Pairs
    body: bytes = b""
    keep_alive: bool = True
    names: dict[bytes, list[bytes]] = field(default_factory=dict, compare=False)


class Bad(Exception):
    """This cannot be read in one way."""


class Short(Exception):
    """The end came first."""


class Reader:
    """`asked`: what was read. `end`: why no more was: "bad", "short", "closed" or "end"."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.asked: list[Asked] = []
        self.end = "end"
        try:
            self._read_all()
        except Bad:
            self.end = "bad"
        except Short:
            self.end = "short"

    def _read_all(self) -> None:
        while True:
            while self.data[self.at : self.at + 1] in (b"\r", b"\n"):
                self.at += 1
            if self.at == len(self.data):
                return
            asked = self._head()
            asked.body = self._body(asked)
            self.asked.append(asked)
            if not asked.keep_alive:
                self.end = "closed"
                return

    def _line(self) -> bytes:
        end = self.data.find(b"\r\n", self.at)
        if end < 0:
            raise Short
        line, self.at = self.data[self.at : end], end + 2
        if re.search(rb"[\r\n\0]", line):
            raise Bad
        return line

    def _fields(self) -> Pairs:
        pairs = []
        while line := self._line():
            match = _FIELD.fullmatch(line)
            if match is None:
                raise Bad
            pairs.append((match[1], match[2].rstrip(b" \t")))
        return pairs

    def _head(self) -> Asked:
        match = _LINE.fullmatch(self._line())
        if match is None or match[1] not in METHODS:
            raise Bad
        method, target, minor = match.groups()
        absolute = _ABSOLUTE.match(target)
        if absolute is not None:
            target = target[absolute.end() :]
            target = target if target.startswith(b"/") else b"/" + target
        asked = Asked(method, target, self._fields())
        for name, value in asked.headers:
            asked.names.setdefault(name.lower(), []).append(value)
        names = asked.names
        if not target.startswith(b"/") and (method, target) != (b"OPTIONS", b"*"):
            raise Bad
        hosts = len(names.get(b"host", []))
        if hosts > 1 or (hosts == 0 and minor == b"1"):
            raise Bad
        if any(b"websocket" in value.lower() for value in names.get(b"upgrade", [])[:1]):
            raise Bad
        tokens = {
            token.strip(b" \t").lower()
            for value in names.get(b"connection", [])
            for token in value.split(b",")
        }
        asked.keep_alive = b"close" not in tokens if minor == b"1" else b"keep-alive" in tokens
        coding, lengths = names.get(b"transfer-encoding"), names.get(b"content-length", [])
        if coding is not None and (
            minor == b"0" or lengths or [value.lower() for value in coding] != [b"chunked"]
        ):
            raise Bad
        if len(lengths) > 1 or not all(re.fullmatch(rb"[0-9]{1,40}", each) for each in lengths):
            raise Bad
        return asked

    def _body(self, asked: Asked) -> bytes:
        if b"transfer-encoding" in asked.names:
            return self._chunks()
        (length,) = asked.names.get(b"content-length", [b"0"])
        return self._exactly(int(length))

    def _exactly(self, count: int) -> bytes:
        body = self.data[self.at : self.at + count]
        if len(body) < count:
            raise Short
        self.at += count
        return body

    def _chunks(self) -> bytes:
        body = b""
        while True:
            match = _SIZE.fullmatch(self._line())
            if match is None:
                raise Bad
            size = int(match[1], 16)
            if size >= 1 << 64:
                raise Bad
            if size == 0:
                break
            body += self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise Bad
        for name, _ in self._fields():
            if name.lower() in (b"content-length", b"transfer-encoding"):
                raise Bad
        return body

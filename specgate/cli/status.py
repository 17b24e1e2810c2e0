"""`specgate status`: a running gate on one page of a terminal."""

import json
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import click
import httpx2
from pydantic import ValidationError
from rich.console import Console, RenderableType
from rich.live import Live

from specgate import __version__
from specgate.admin.models import Status
from specgate.cli.status_page import page
from specgate.cli.values import KEY
from specgate.settings.addresses import is_host

WRONG, REFUSED, NO_ANSWER = 1, 2, 4
EVERY_S = 1.0
TIMEOUT = httpx2.Timeout(5.0, connect=3.0)
WIDTH = 10_000
"""Of a page that no terminal shows: no line of it is wrapped."""

PATH = "/_specgate/status"
ANSWER_LIMIT = 1 << 20
"""Bytes of an answer; a status has some three thousand."""

EPILOG = """\b
Examples:
  specgate status
      the gate on this machine, once
  specgate status --watch
      every second, until ^C
  specgate status --url http://10.0.0.5:8400 --json
      for scripts: the document that GET /_specgate/status gives
  SPECGATE_ADMIN_TOKEN=... specgate status
      a gate with SPECGATE_CONTROL_READ=token
  SSL_CERT_FILE=ca.crt specgate status --url https://gate.internal:8400
      a certificate of a CA that this machine does not know

Times, tokens a second and errors of the lanes are those of the last half minute.

Exit status: 0 a gate answered, 1 what answers there is no gate, or one of another version, 2 wrong
usage, or not the token that the gate asks for, 4 nothing answers, 130 interrupted, which is how
--watch ends.
"""


class NoStatus(click.ClickException):
    """One line, and the exit status that it stands for."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # of this one, and not of the class


class UrlParam(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Where a gate listens."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _is_address(value):
            self.fail("must be a gate's address, such as http://127.0.0.1:8400", param, ctx)
        if "@" in value:
            self.fail(
                "must not hold a user name or password: a token is given with --token", param, ctx
            )
        return value.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    named = parts.scheme in ("http", "https") and is_host(parts.hostname or "")
    return named and port != 0 and not (parts.query or parts.fragment)


@click.command(
    epilog=EPILOG, short_help="Show a running gate: its side, why, and when it would switch."
)
@click.option(
    "--url",
    type=UrlParam(),
    metavar="URL",
    default="http://127.0.0.1:8400",
    show_default=True,
    help="Where the gate listens.",
)
@click.option(
    "--token",
    type=KEY,
    metavar="TOKEN",
    envvar="SPECGATE_ADMIN_TOKEN",
    help="The gate's admin token, sent where the gate asks for it. Also SPECGATE_ADMIN_TOKEN.",
)
@click.option("--watch", is_flag=True, help="Again every second, until ^C.")
@click.option(
    "--json", "wants_json", is_flag=True, help="The status document; with --watch one a line."
)
def status(*, url: str, token: str | None, watch: bool, wants_json: bool) -> None:
    """Show a running gate: the lane that serves and why, and how far it is from switching.

    The load against the band; each lane's health, requests in flight, tokens a second, TTFT and
    TPOT; accept length against break-even; what the gate has gained; the last switches.
    """
    trusted = ssl.create_default_context() if url.startswith("https:") else False
    with (
        _interrupted_once(),
        httpx2.Client(trust_env=False, verify=trusted, timeout=TIMEOUT) as http,
    ):
        gate = Gate(http, url, token)
        if wants_json:
            _documents(gate, watch=watch)
        elif watch:
            _watch(gate, _console())
        else:
            console = _console()
            _print(console, page(gate.status(), url, console.width))


@dataclass(slots=True)
class Gate:
    """A gate's address, asked. token: what it is sent once it has asked for it, and not before."""

    http: httpx2.Client
    url: str
    token: str | None = None
    _asks: bool = False

    def document(self) -> Any:
        """What it says, decoded. Raises NoStatus."""
        status, found = self._answer()
        if status == 401 and self.token is not None and not self._asks:
            self._asks = True
            status, found = self._answer()
        if status == 401:
            told = "takes another admin token" if self._asks else "asks for its admin token"
            raise NoStatus(f"{self.url}: {told}: give --token or SPECGATE_ADMIN_TOKEN", REFUSED)
        if status != 200 or not isinstance(found, dict) or "in_flight" not in found:
            raise NoStatus(f"{self.url}: no specgate ({PATH} answered {status})", WRONG)
        return found

    def _answer(self) -> tuple[int, Any]:
        """Its status, and its JSON if it is any."""
        headers = {"authorization": f"Bearer {self.token}"} if self._asks else {}
        body = bytearray()
        try:
            with self.http.stream("GET", self.url + PATH, headers=headers) as reply:
                for piece in reply.iter_bytes():
                    body += piece
                    if len(body) > ANSWER_LIMIT:
                        raise NoStatus(f"{self.url}: no specgate: its answer has no end", WRONG)
        except (httpx2.HTTPError, OSError) as error:
            raise NoStatus(
                f"no gate answers at {self.url} ({_why(error)}); --url names another", NO_ANSWER
            ) from None
        try:
            return reply.status_code, json.loads(body)
        except (ValueError, RecursionError):
            return reply.status_code, None

    def status(self) -> Status:
        """The same, read. Raises NoStatus."""
        found = self.document()
        try:
            return Status.model_validate(found)
        except ValidationError:
            version = str(found.get("version"))[:20]
            raise NoStatus(
                f"the gate at {self.url} is of version {version!r}, and this is {__version__}: "
                "--json prints what it says",
                WRONG,
            ) from None


def _documents(gate: Gate, *, watch: bool) -> None:
    if not watch:
        click.echo(json.dumps(gate.document(), indent=2))
        return
    while True:
        click.echo(json.dumps(gate.document(), separators=(",", ":")))
        time.sleep(EVERY_S)


def _watch(gate: Gate, console: Console) -> None:
    """In place on a terminal, else a page below the other."""
    pages = _pages(gate, console)
    if not console.is_terminal:
        for shown in pages:
            _print(console, shown)
            click.echo()
        return
    first = next(pages)
    # Started with nothing to draw: what interrupts its first drawing leaves the screen as it is.
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        for shown in chain((first,), pages):
            live.update(shown, refresh=True)


def _pages(gate: Gate, console: Console) -> Iterator[RenderableType]:
    """A page a second. A gate that stops answering stays on show, with how long ago it did. Raises
    NoStatus where it does not answer the first time."""
    last, seen_at = gate.status(), time.monotonic()
    trouble = ""
    while True:
        yield page(last, gate.url, console.width, trouble)
        time.sleep(EVERY_S)
        try:
            last, seen_at, trouble = gate.status(), time.monotonic(), ""
        except NoStatus as error:
            ago = time.monotonic() - seen_at
            trouble = f"{error.format_message()}; what follows is from {ago:.0f} s ago"


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """The first ^C interrupts. One more, which people press and `timeout` sends, does nothing: it
    would break into what ends the command, and be a traceback."""
    told = False

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if not told:
            signal.signal(signal.SIGINT, before)


def _print(console: Console, shown: RenderableType) -> None:
    """Without the spaces that fill a table's lines, where no terminal shows it."""
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as kept:
        console.print(shown)
    click.echo("\n".join(line.rstrip() for line in kept.get().splitlines()))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def _why(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection in 3 s"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in 5 s"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__

"""The contract of an upstream: https lanes, with authorities and certificates as the settings name
them."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from specgate.core.errors import ConnectFailed, NoAnswer, StreamBroken
from specgate.core.lanes import Lane
from specgate.settings import load
from specgate.settings.certificates import lanes_tls
from specgate.upstream.base import Origin, Upstream
from tests.contract.asking import OK, Collect, arriving, ask, cancel, get, origin, upload
from tests.contract.conftest import POOLED, Form
from tests.contract.engine import Engine, Peer, answers, answers_and_closes
from tests.support.client import chunked

ANSWERS = answers(*[OK] * 100)


@dataclass(frozen=True)
class Files:
    """An authority, and what it issued: a server's side, and a client's certificate as files."""

    ca: trustme.CA
    ca_file: str
    cert_file: str
    key_file: str
    other_ca_file: str

    def server(self, *names: str, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        if ask_client:
            self.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder: Path = tmp_path_factory.mktemp("tls")

    def write(name: str, *blobs: trustme.Blob) -> str:
        path = folder / name
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return str(path)

    ca, other = trustme.CA(), trustme.CA()
    client = ca.issue_cert("gate.test")
    return Files(
        ca,
        write("ca.pem", ca.cert_pem),
        write("client.pem", *client.cert_chain_pems),
        write("client.key", client.private_key_pem),
        write("other.pem", other.cert_pem),
    )


Build = Callable[..., Upstream]


@pytest.fixture
def build(form: Form) -> Build:
    """An upstream as the gate makes it, from settings."""

    def made(**settings: str) -> Upstream:
        environ = {
            "SPECGATE_SPEC_URL": "https://a.test",
            "SPECGATE_PLAIN_URL": "https://b.test",
            **{f"SPECGATE_UPSTREAM_{name.upper()}": value for name, value in settings.items()},
        }
        return form.build(tls=lanes_tls(load(environ).settings))

    return made


async def test_authority_from_a_file(build: Build, form: Form, files: Files):
    upstream = build(ca_file=files.ca_file)
    async with Engine(ANSWERS, tls=files.server("127.0.0.1")) as engine:
        for _ in range(3):
            assert (await ask(upstream, engine)).body == b"ok"
        body = arriving([b"x" * 100_000] * 3)
        assert (await ask(upstream, engine, upload(body))).body == b"ok"
        assert len(engine.connections) == form.connections(4)
        assert engine.connections[-1].bodies[-1] == chunked(*[b"x" * 100_000] * 3)
        await upstream.aclose()
        await engine.all_gone()


async def test_client_certificate(build: Build, files: Files):
    server = files.server("127.0.0.1", ask_client=True)
    async with Engine(ANSWERS, tls=server) as engine:
        upstream = build(ca_file=files.ca_file, cert_file=files.cert_file, key_file=files.key_file)
        assert (await ask(upstream, engine)).body == b"ok"
        await upstream.aclose()
        nobody = build(ca_file=files.ca_file)
        # TLS 1.3: the server's refusal comes after our side of the handshake is done.
        with pytest.raises((ConnectFailed, NoAnswer)):
            await ask(nobody, engine)
        await nobody.aclose()


@pytest.mark.parametrize("wrong", ["authority", "name"])
async def test_certificate_that_does_not_do(build: Build, files: Files, wrong: str):
    upstream = build(ca_file=files.other_ca_file if wrong == "authority" else files.ca_file)
    names = ("127.0.0.1",) if wrong == "authority" else ("elsewhere.test",)
    async with Engine(ANSWERS, tls=files.server(*names)) as engine:
        with pytest.raises(ConnectFailed, match=r"(?i)certificate verify failed"):
            await ask(upstream, engine)
        await engine.all_gone()
    await upstream.aclose()


async def test_lane_that_speaks_no_tls(build: Build, files: Files):
    upstream = build(ca_file=files.ca_file)

    async def plain(peer: Peer) -> None:
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def hangs_up(peer: Peer) -> None:
        await peer.reader.read(100)
        peer.close()

    async with Engine(plain, hangs_up) as engine:
        where = engine.url.replace("http:", "https:")
        for _ in range(2):
            with pytest.raises(ConnectFailed) as caught:
                await ask(upstream, Origin.of(Lane.SPEC, where))
            assert str(caught.value)
        await engine.all_gone()
    await upstream.aclose()


@POOLED
async def test_handshake_that_never_ends(form: Form, files: Files):
    """The time to connect includes it; and a request that is cancelled meanwhile leaves nothing.

    Not of httpx: it leaves the socket to the garbage collector.
    """
    context = ssl.create_default_context(cafile=files.ca_file)
    upstream = form.build(connect_timeout_s=0.2, tls=context)

    async def mute(peer: Peer) -> None:
        await peer.until_gone()

    async with Engine(mute) as engine:
        where = Origin.of(Lane.SPEC, engine.url.replace("http:", "https:"))
        with pytest.raises(ConnectFailed):
            await ask(upstream, where)
        for pause_s in (0, 0.001, 0.01, 0.05):
            sending = asyncio.ensure_future(upstream.send(where, get()))
            await asyncio.sleep(pause_s)
            await cancel(sending)
        await engine.all_gone()
    await upstream.aclose()


@POOLED
async def test_cancelled_within_the_handshake(build: Build, files: Files):
    upstream = build(ca_file=files.ca_file)
    async with Engine(ANSWERS, tls=files.server("127.0.0.1")) as engine:
        for turns in range(25):
            sending = asyncio.ensure_future(ask(upstream, engine))
            for _ in range(turns):
                await asyncio.sleep(0.0003)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await upstream.aclose()
        await engine.all_gone()
        # The engine's side of a handshake that was given up ends by itself, before its server does.
        await asyncio.sleep(0.05)


@POOLED
async def test_until_close_and_a_large_one(build: Build, files: Files):
    """Not of httpx: under TLS it uses a connection again that the engine has said to have ended."""
    upstream = build(ca_file=files.ca_file)
    body = b"x" * 5_000_000
    async with Engine(
        answers_and_closes(b"HTTP/1.1 200 OK\r\n\r\nhello"),
        answers(b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n" + body, OK),
        tls=files.server("127.0.0.1"),
    ) as engine:
        assert (await ask(upstream, engine)).body == b"hello"
        sink = Collect(full_each=100_000, pause_s=0.001)
        assert (await ask(upstream, engine, sink=sink)).body == body
        assert sink.most_waiting < 1_000_000
        response = await upstream.send(origin(engine), get())
        await response.aclose()
    await upstream.aclose()


@POOLED
@pytest.mark.parametrize("told", [True, False], ids=["close_notify", "fin"])
async def test_the_end_of_a_body_that_only_the_connection_ends(
    build: Build, files: Files, told: bool
):
    """Within TLS it is an end where TLS says so. A bare FIN may be anybody's, and is all that an
    engine that is killed sends. httpx2 takes it for an end."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        if told:
            peer.close()
        else:
            peer.now(lambda sock: sock.shutdown(socket.SHUT_WR))
            await peer.until_gone()

    upstream = build(ca_file=files.ca_file)
    async with Engine(play, tls=files.server("127.0.0.1")) as engine:
        response = await upstream.send(origin(engine), get())
        sink = Collect()
        if told:
            await response.deliver(sink, 10)
        else:
            with pytest.raises(StreamBroken):
                await response.deliver(sink, 10)
        assert sink.data == b"half of it"
        await response.aclose()
    await upstream.aclose()

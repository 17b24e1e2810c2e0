"""TLS with clients: the same gate, and what only TLS has."""

import asyncio
import json
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from specgate.service import serving
from specgate.settings import SettingsError, load
from specgate.settings.certificates import clients_tls
from specgate.wiring import build
from tests.support.client import CHAT, JSON, chat, request_bytes
from tests.support.lanes import DONE, Rst, ScriptedLane, delta, sse_response
from tests.support.live import environment
from tests.support.process import serve_process

both_forms = pytest.mark.usefixtures("form")


class Issued:
    """An authority, and a certificate of it in files."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.cert = folder / "gate.crt"
        self.key = folder / "gate.key"
        self.issue("localhost")

    def issue(self, name: str, key_of: trustme.LeafCert | None = None) -> trustme.LeafCert:
        leaf = self.ca.issue_cert(name)
        self.cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        (key_of or leaf).private_key_pem.write_to_path(str(self.key))
        return leaf

    def settings(self, **others: object) -> dict[str, str]:
        files = {"tls_cert_file": self.cert, "tls_key_file": self.key}
        return environment(
            **{"spec_url": "http://a:1", "plain_url": "http://b:2", **files, **others}
        )

    def client(self, *alpn: str) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Issued(tmp_path)


@asynccontextmanager
async def encrypted(
    port: int, context: ssl.SSLContext, name: str = "localhost"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=name
    )
    try:
        yield reader, writer
    finally:
        writer.close()
        # TLS's own farewell may be answered by a reset: the gate has gone already.
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@asynccontextmanager
async def gate_with(environ: dict[str, str]):
    from tests.support import live

    service = build(load(environ).settings, reload=lambda: load(environ))
    listener = socket.create_server(("127.0.0.1", 0))
    async with serving(service, listener, portable=live.PORTABLE):
        yield service, listener.getsockname()[1]


ASK = request_bytes(b"POST", CHAT, [JSON], chat())


@both_forms
async def test_a_stream_over_tls_arrives_whole_and_the_connection_stays(issued: Issued):
    frames = [delta(f"t{i}") for i in range(20)]
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer(CHAT.decode(), sse_response([*frames, DONE], pause_s=0.005))
        environ = issued.settings(spec_url=spec.url, plain_url=plain.url, threshold="always")
        async with (
            gate_with(environ) as (_, port),
            encrypted(port, issued.client()) as (reader, writer),
        ):
            for _ in range(2):
                writer.write(ASK)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                body = await reader.readuntil(b"\r\n0\r\n\r\n")
                assert all(frame in body for frame in frames)
            writer.write(b"GET /_specgate/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_leaves_over_tls_ends_its_request(issued: Issued):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer(CHAT.decode(), sse_response([delta("x")] * 1000, pause_s=0.01))
        environ = issued.settings(spec_url=spec.url, plain_url=plain.url, threshold="always")
        async with gate_with(environ) as (service, port):
            async with encrypted(port, issued.client()) as (reader, writer):
                writer.write(ASK)
                await reader.readuntil(b"data:")
            await spec.saw_close(within_s=2)
            assert service.gate.view().counts.spec == 0


async def test_a_response_that_breaks_off_looks_broken(issued: Issued):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer(CHAT.decode(), [*sse_response([delta("x")])[:-1], Rst()])
        environ = issued.settings(spec_url=spec.url, plain_url=plain.url, threshold="always")
        async with (
            gate_with(environ) as (_, port),
            encrypted(port, issued.client()) as (reader, writer),
        ):
            writer.write(ASK)
            data = b""
            with suppress(ConnectionError, ssl.SSLError):
                while piece := await reader.read(65536):
                    data += piece
            assert delta("x") in data
            assert not data.endswith(b"\r\n0\r\n\r\n")


async def test_only_http_1_1_is_agreed_on(issued: Issued):
    async with gate_with(issued.settings()) as (_, port):
        for offered, agreed in ((("h2", "http/1.1"), "http/1.1"), ((), None)):
            async with encrypted(port, issued.client(*offered)) as (_, writer):
                assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == agreed


async def test_old_tls_and_plain_http_are_no_way_in(issued: Issued):
    async with gate_with(issued.settings()) as (_, port):
        old = issued.client()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with encrypted(port, old):
                pass
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP" not in await reader.read()
        writer.close()


@both_forms
async def test_a_reload_shows_the_new_certificate_and_keeps_connections(issued: Issued):
    async with (
        gate_with(issued.settings()) as (service, port),
        encrypted(port, issued.client()) as (reader, writer),
    ):
        issued.issue("renewed.test")
        with pytest.raises(ssl.SSLCertVerificationError):
            async with encrypted(port, issued.client(), "renewed.test"):
                pass
        await service.reloader.reload("test")
        async with encrypted(port, issued.client(), "renewed.test"):
            pass
        # A client that names no server is shown it too.
        no_name = issued.client()
        no_name.check_hostname = False
        async with encrypted(port, no_name, "") as (_, other):
            shown = other.get_extra_info("ssl_object").getpeercert()
            assert shown["subjectAltName"] == (("DNS", "renewed.test"),)
        # A pair that does not belong together changes nothing.
        issued.issue("broken.test", key_of=issued.ca.issue_cert("x"))
        with pytest.raises(SettingsError, match="is not the key of the certificate"):
            await service.reloader.reload("test")
        async with encrypted(port, issued.client(), "renewed.test"):
            pass
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


def test_a_file_that_does_not_do_is_one_line_that_names_it(issued: Issued, tmp_path: Path):
    from cryptography.hazmat.primitives import serialization as form

    leaf = issued.issue("localhost")
    other = issued.ca.issue_cert("other")
    secret = form.load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"pw")
    )
    files = {
        "cert": b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
        "key": leaf.private_key_pem.bytes(),
        "other": other.private_key_pem.bytes(),
        "secret": secret,
        "empty": b"",
        "bad": b"-----BEGIN CERTIFICATE-----\nxx!!\n-----END CERTIFICATE-----\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for cert, key, named, said in (
        ("none", "key", "tls_cert_file", "No such file"),
        ("cert", "none", "tls_key_file", "No such file"),
        (".", "key", "tls_cert_file", "Is a directory"),
        ("empty", "key", "tls_cert_file", "holds no certificate"),
        ("key", "key", "tls_cert_file", "holds no certificate"),
        ("bad", "key", "tls_cert_file", "cannot read it"),
        ("cert", "empty", "tls_key_file", "holds no key"),
        ("cert", "cert", "tls_key_file", "holds no key"),
        ("cert", "other", "tls_key_file", "is not the key of the certificate"),
        ("cert", "secret", "tls_key_file", "encrypted"),
        ("cert", None, "tls_cert_file", "holds no key, and SPECGATE_TLS_KEY_FILE is not set"),
        (None, "key", "tls_cert_file", "is not set"),
    ):
        named_files = {
            f"tls_{part}_file": tmp_path / name
            for part, name in (("cert", cert), ("key", key))
            if name is not None
        }
        environ = environment(spec_url="http://a:1", plain_url="http://b:2", **named_files)
        with pytest.raises(SettingsError, match=said) as raised:
            clients_tls(load(environ).settings)
        (problem,) = raised.value.problems
        assert problem.startswith(f"SPECGATE_{named.upper()}")
        assert "\n" not in problem
    both = tmp_path / "both"
    both.write_bytes(files["key"] + files["cert"])
    environ = environment(spec_url="http://a:1", plain_url="http://b:2", tls_cert_file=both)
    assert clients_tls(load(environ).settings) is not None


async def test_serve_says_https_and_renews_at_sighup(issued: Issued):
    import signal

    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        plain.answer(CHAT.decode(), sse_response([delta("x")] * 1000, pause_s=0.01))
        environ = issued.settings(
            spec_url=spec.url, plain_url=plain.url, drain_settle_s=0, metrics_port=0
        )
        async with serve_process(environ) as gate:
            assert gate.url.startswith("https://127.0.0.1:")
            port = int(gate.url.rsplit(":", 1)[1])
            issued.issue("renewed.test")
            gate.process.send_signal(signal.SIGHUP)
            await gate.logged("settings_changed")
            async with encrypted(port, issued.client("h2"), "renewed.test") as (reader, writer):
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                reply = await reader.read()
                assert json.loads(reply.partition(b"\r\n\r\n")[2])["stopping"] is False
            # On uvloop too, whose TLS is another: leaving is heard, and a break looks like one.
            async with encrypted(port, issued.client(), "renewed.test") as (reader, writer):
                writer.write(ASK)
                await reader.readuntil(b"data:")
            await plain.saw_close(within_s=2)
            plain.answer(CHAT.decode(), [*sse_response([delta("x")])[:-1], Rst()])
            async with encrypted(port, issued.client(), "renewed.test") as (reader, writer):
                writer.write(ASK)
                told = b""
                with suppress(ConnectionError, ssl.SSLError):
                    while piece := await reader.read(65536):
                        told += piece
                assert delta("x") in told
                assert not told.endswith(b"\r\n0\r\n\r\n")
            issued.cert.write_bytes(b"")
            gate.process.send_signal(signal.SIGHUP)
            refused = await gate.logged("reload_refused")
            assert "SPECGATE_TLS_CERT_FILE=" in refused["error"]
            async with encrypted(port, issued.client(), "renewed.test"):
                pass
            gate.process.terminate()
            assert await gate.stopped() == 0
            assert "Traceback" not in str(list(gate.log))

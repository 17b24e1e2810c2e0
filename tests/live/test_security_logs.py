"""Logs cannot be forged: whatever a client sends stays inside the one line of its request."""

import asyncio
import io
import json
import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from specgate.telemetry.lines import LineWriter
from specgate.telemetry.visible import visible, visible_bytes
from tests.support.client import connect
from tests.support.lanes import Rst, ScriptedLane, Send, json_response
from tests.support.live import environment
from tests.support.process import serve_process

FORGED = (
    b"/v1/%0A%7B%22event%22%3A%22forged%22%7D%0D%0Aevent=forged%09level=error%1B%5B2J%7F"
    b"%C2%9B31m%E2%80%AE%E2%80%A8%22%20x=%22%5C%00"
)
HEADERS = [
    (b"X-Request-Id", b'x" event=forged'),
    (b"User-Agent", b"forged\x9b"),
    (b"X-Thing", b"forged"),
]


@pytest.mark.parametrize("form", ["json", "text"])
async def test_o01_a_request_is_one_line_whatever_it_says(form: str, tmp_path: Path):
    lines = await written(tmp_path / "log", form)
    mine = [line for line in lines if b"forged" in line]
    assert len(mine) == 1
    assert all(len(line) < 1000 for line in lines)
    text = mine[0].decode()
    assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")], text
    if form == "json":
        entry = json.loads(text)
        assert (entry["event"], entry["method"], entry["level"]) == ("request", "GET", "info")
        assert "\x1b[2J" in entry["path"]
        assert re.fullmatch("[0-9a-f]+", entry["request_id"])
    else:
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "_", text)
        assert re.search(r"(^| )event=request ", bare)
        assert not re.search(r"(event|level)=(forged|error)", bare)


async def written(log: Path, form: str) -> list[bytes]:
    """What a gate of its own process wrote on stderr, byte for byte."""
    environ = {name: v for name, v in os.environ.items() if not name.startswith("SPECGATE_")}
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        plain.answer("*", json_response(200, {}))
        environ |= {
            "SPECGATE_SPEC_URL": spec.url,
            "SPECGATE_PLAIN_URL": plain.url,
            "SPECGATE_PORT": "0",
            "SPECGATE_LOG_FORMAT": form,
            "SPECGATE_DRAIN_SETTLE_S": "0",
        }
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "specgate", "serve"), env=environ, stderr=stderr
            )
        try:
            async with connect(await listening_at(log)) as client:
                assert (await client.request(b"GET", FORGED, HEADERS)).status == 200
                long = (b"X-Request-Id", b"forged-" + b"x" * 10_000)
                await client.request(b"GET", b"/" + b"x" * 10_000, [long])
        finally:
            process.terminate()
            await process.wait()
    return log.read_bytes().split(b"\n")


async def listening_at(log: Path) -> str:
    async with asyncio.timeout(15):
        while not (found := re.search(rb"http://127\.0\.0\.1:\d+(?=.*\n)", said(log))):
            await asyncio.sleep(0.05)
    return found[0].decode()


async def test_o02_no_secret_is_in_the_logs_at_any_level():
    """Of clients, engines and the gate; right and wrong ones; in queries, settings and errors."""
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(
            spec_url=spec.url,
            plain_url=plain.url,
            log_level="debug",
            drain_settle_s=0,
            api_keys="s3cret-client,s3cret-other",
            spec_api_key="s3cret-spec",
            plain_api_key="s3cret-plain",
            admin_token="s3cret-token",
        )
        async with serve_process(environ) as gate, connect(gate.url) as client:
            key = (b"Authorization", b"Bearer s3cret-client")
            shown: list[bytes] = []
            plain.answer_next([Send(b"garbage s3cret\r\n\r\n"), Rst()])
            for method, target, headers in (
                (b"GET", b"/v1/thing?api_key=s3cret", [key]),
                (b"GET", b"/v1/thing", [key, (b"Cookie", b"s3cret"), (b"X-Api-Key", b"s3cret")]),
                (b"POST", b"/_specgate/reload", [(b"Authorization", b"Bearer s3cret-token")]),
                (b"GET", b"/_specgate/status", []),
                (b"GET", b"/metrics", []),
                (b"GET", b"/_specgate/openapi.json", []),
                (b"PUT", b"/_specgate/mode", [(b"Authorization", b"Bearer s3cret-wrong")]),
                (b"GET", b"/v1/thing", [(b"Authorization", b"Bearer s3cret-wrong")]),
            ):
                reply = await client.request(method, target, headers)
                shown.append(reply.body.data)
            gate.process.terminate()
            assert await gate.stopped() == 0
        told = "\n".join(map(str, gate.log))
    assert "debug" in told
    assert "s3cret" not in told
    # The gate's own word, whoever asks; an engine's is its own affair.
    assert not [body for body in shown[2:] if b"s3cret" in body]


def said(log: Path) -> bytes:
    """Of where it listens, alone: the lanes' URLs are told before."""
    return b"".join(line for line in log.read_bytes().splitlines(True) if b"listening" in line)


def test_letters_of_all_scripts_stay():
    assert visible("/v1/modèles/日本 x") == "/v1/modèles/日本 x"
    assert visible_bytes("/日本".encode()) == "/日本".encode()


def test_what_is_no_text_is_no_line_end():
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0x200B, 0xE0001):
        written = visible(f"a{chr(number)}b")
        assert written.isprintable()
        assert json.loads(f'"{written}"') == f"a{chr(number)}b"
    assert visible_bytes(b"a\xffb").decode() == "a\N{REPLACEMENT CHARACTER}b"


def test_the_writer_escapes_what_its_makers_do_not():
    """JSON lines of requests are encoded in C, which writes these as they are."""
    out = io.BytesIO()
    lines = LineWriter(out)
    lines.write('{"path":"/\u009b\u2028ü"}\n'.encode())
    lines.write(b'{"path":"/x"}\n')
    lines.flush()
    assert out.getvalue().decode() == '{"path":"/\\u009b\\u2028ü"}\n{"path":"/x"}\n'

"""`specgate status`: a gate that runs, on a page."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from specgate.admin.models import Status
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin
from tests.support.client import chat_request, connect
from tests.support.control import TOKEN, change
from tests.support.lanes import ScriptedLane, json_response
from tests.support.process import serve_process
from tests.support.stage import stage
from tests.support.streams import held

STATUS = (sys.executable, "-m", "specgate", "status")
NOWHERE = "http://127.0.0.1:9"


@asynccontextmanager
async def started(
    *options: str, out: int = PIPE, token: str = "", authority: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`token`: of the environment. `authority`: of certificates, in a file; None: the machine's."""
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environ |= {"TERM": "xterm-256color", "SPECGATE_ADMIN_TOKEN": token}
    if authority is not None:
        environ["SSL_CERT_FILE"] = str(authority)
    process = await asyncio.create_subprocess_exec(
        *STATUS, *options, stdout=out, stderr=PIPE, env=environ
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run(
    *options: str, token: str = "", authority: Path | None = None
) -> tuple[int | None, str, str]:
    """Exit status, stdout and stderr."""
    async with started(*options, token=token, authority=authority) as process, asyncio.timeout(20):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def rows(page: str) -> dict[str, list[str]]:
    """The page's lines by their first word."""
    lines = [line.split() for line in page.splitlines() if line.strip()]
    return {line[0]: line[1:] for line in lines}


async def test_a_page_says_which_lane_serves_why_and_how_far_it_is_from_switching():
    end = asyncio.Event()
    async with stage(threshold=8, band=0.25) as on:
        on.spec.answer_next(held(end))
        async with connect(on.url) as client:
            await client.send(chat_request(n=5))
            await client.read_head()
            code, page, err = await run("--url", on.url)
            end.set()
            await client.read_body()
        assert (code, err) == (0, "")
        assert on.url in page
        lines = rows(page)
        assert lines["side"][:2] == ["spec", "(below_threshold):"]
        assert " ".join(lines["next"]) == "the gate leaves spec at a load of 8: 3.00 more"
        assert lines["load"][0] == "5.00"
        assert lines["load"][-4:] == ["band", "6", "to", "8"]
        assert lines["spec"][:2] == ["healthy", "5"]
        assert lines["plain"][:2] == ["healthy", "0"]
        assert on.spec.url in page
        assert "\x1b" not in page, "colour only on terminals"


async def test_the_last_switches_are_on_it():
    async with stage(threshold=8, admin_token=TOKEN) as on:
        await change(on, b"PUT", "mode", {"mode": "plain"})
        _, page, _ = await run("--url", on.url)
        assert "last of 1 switches" in page
        lines = [line.split() for line in page.splitlines()]
        assert any(line[1:3] == ["plain", "forced"] for line in lines)
        assert "held on the plain side by an operator" in page


async def test_json_is_the_status_document():
    async with stage(threshold=8) as on:
        code, out, err = await run("--url", on.url + "/", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out).keys() == (await on.gate.status()).keys()
        assert Status.model_validate_json(out).threshold == 8


@pytest.mark.parametrize("options", [(), ("--json",), ("--watch",)])
async def test_a_gate_that_does_not_answer_is_one_line_and_an_exit_status(options):
    code, out, err = await run("--url", NOWHERE, *options)
    assert (code, out) == (4, "")
    assert err.startswith(f"Error: no gate answers at {NOWHERE} (")
    assert "--url" in err
    assert err.count("\n") == 1


async def test_what_is_no_gate_is_told_apart():
    async with ScriptedLane("spec") as engine:
        code, out, err = await run("--url", engine.url)
        assert (code, out) == (1, "")
        assert "no specgate" in err
        assert err.count("\n") == 1


async def test_a_gate_of_another_version_is_named_and_json_prints_it():
    told = {"in_flight": 3, "version": "9.9"}
    async with ScriptedLane("gate") as other:
        other.answer("/_specgate/status", json_response(200, told))
        code, out, err = await run("--url", other.url)
        assert (code, out) == (1, "")
        assert "'9.9'" in err
        assert "--json" in err
        code, out, _ = await run("--url", other.url, "--json")
        assert (code, json.loads(out)) == (0, told)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8400", "ftp://gate", "http://", "http://a b", "http://u:p@gate", "http://g?x"],
)
async def test_a_wrong_address_is_named(url):
    code, out, err = await run("--url", url)
    assert (code, out) == (2, "")
    assert "'--url'" in err
    assert "u:p" not in err
    assert "Traceback" not in err


CLOSED = {"admin_token": TOKEN, "control_read": "token"}


async def test_a_gate_that_asks_readers_for_its_token_is_given_it():
    async with stage(threshold=8, **CLOSED) as on:
        for given in ({"token": TOKEN}, {"options": ("--token", TOKEN)}):
            options = given.get("options", ())
            found = await run("--url", on.url, *options, token=str(given.get("token", "")))
            assert (found[0], found[2]) == (0, "")
            assert rows(found[1])["side"][:2] == ["spec", "(below_threshold):"]
        async with (
            started("--url", on.url, "--watch", "--json", token=TOKEN) as process,
            asyncio.timeout(20),
        ):
            assert process.stdout is not None
            for _ in range(2):
                assert json.loads(await process.stdout.readline())["threshold"] == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "asks for its admin token"),
        (("--json",), "asks for its admin token"),
        (("--token", "s3cret"), "takes another admin token"),
        (("--watch", "--token", "s3cret"), "takes another admin token"),
    ],
)
async def test_without_its_token_it_is_one_line_and_an_exit_status(options, words):
    async with stage(**CLOSED) as on:
        code, out, err = await run("--url", on.url, *options)
    line = f"Error: {on.url}: {words}: give --token or SPECGATE_ADMIN_TOKEN\n"
    assert (code, out, err) == (2, "", line)


async def test_a_gate_that_does_not_ask_is_not_sent_the_token():
    async with ScriptedLane("gate") as other:
        other.answer("/_specgate/status", json_response(200, {"in_flight": 3}))
        assert (await run("--url", other.url, "--json", token=TOKEN))[0] == 0
        (request,) = other.requests
        assert not [value for name, value in request.headers if name.lower() == b"authorization"]


async def test_a_token_that_no_header_can_carry_is_refused_unseen():
    code, _, err = await run("--token", "s3cret with a space")
    assert code == 2
    assert "'--token'" in err
    assert "s3cret" not in err


async def test_watching_goes_on_until_it_is_interrupted():
    async with (
        stage(threshold=8, admin_token=TOKEN) as on,
        started("--url", on.url, "--watch") as process,
        asyncio.timeout(20),
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        await _line(process.stdout, b"side ", b"spec")
        await change(on, b"PUT", "mode", {"mode": "plain"})
        await _line(process.stdout, b"side ", b"plain")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert await process.stderr.read() == b""


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_a_second_interrupt_changes_nothing(options: tuple[str, ...]):
    """`timeout -s INT` sends two, to the process and to its group: one was a traceback."""
    async with stage(threshold=8) as on:
        for _ in range(3):
            async with (
                started("--url", on.url, "--watch", *options) as process,
                asyncio.timeout(20),
            ):
                assert process.stdout is not None
                assert process.stderr is not None
                await process.stdout.readline()
                for _ in range(5):
                    # Not by the process's own method, which reaps it before asyncio can.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGINT)
                    await asyncio.sleep(0.002)
                assert await process.wait() == 130
                assert await process.stderr.read() == b""


async def test_a_page_in_a_pipe_is_neither_filled_nor_wrapped():
    long = "a" * 60 + ".test"
    async with stage(threshold=8) as on:
        lane = on.gate.service.gate
        lane.set_origin(Origin.of(Lane.SPEC, f"http://{long}:8000/{'b' * 60}"))
        code, page, _ = await run("--url", on.url)
    assert code == 0
    assert f"http://{long}:8000/{'b' * 60}" in page
    assert [line for line in page.splitlines() if line != line.rstrip()] == []


async def test_watching_as_json_gives_a_document_a_line():
    async with (
        stage(threshold=8) as on,
        started("--url", on.url, "--watch", "--json") as process,
        asyncio.timeout(20),
    ):
        assert process.stdout is not None
        for _ in range(2):
            assert json.loads(await process.stdout.readline())["threshold"] == 8
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_watching_stays_through_a_gate_that_goes_away():
    async with ScriptedLane("spec") as spec:
        async with stage(threshold=8) as on:
            document = await on.gate.status()
        spec.answer("/_specgate/status", json_response(200, document))
        async with started("--url", spec.url, "--watch") as process, asyncio.timeout(20):
            assert process.stdout is not None
            await _line(process.stdout, b"side ", b"spec")
            spec.answer("/_specgate/status", json_response(502, {}))
            await _line(process.stdout, b"what follows is from", b"s ago")
            await _line(process.stdout, b"side ", b"spec")
            spec.answer("/_specgate/status", json_response(200, document))
            await _line(process.stdout, b"specgate ", b"at http")
            assert process.returncode is None


async def test_on_a_terminal_it_has_colours_and_leaves_no_trace_when_interrupted():
    async with stage(threshold=8) as on:
        parent, child = pty.openpty()
        shown = b""
        try:
            async with started("--url", on.url, "--watch", out=child) as process:
                async with asyncio.timeout(20):
                    while b"below_threshold" not in shown:
                        shown += await asyncio.to_thread(os.read, parent, 65536)
                    process.send_signal(signal.SIGINT)
                    while b"\x1b[?1049l" not in shown:  # back from the other screen
                        shown += await asyncio.to_thread(os.read, parent, 65536)
                    assert await process.wait() == 130
                assert process.stderr is not None
                assert await process.stderr.read() == b""
        finally:
            os.close(parent)
            os.close(child)
        assert b"\x1b[1;32mspec" in shown, "the side in green"
        assert b"Traceback" not in shown


async def _line(stream: asyncio.StreamReader, begins: bytes, holds: bytes) -> None:
    while line := await stream.readline():
        if begins in line and holds in line:
            return
    raise AssertionError(f"it ended without a line {begins!r} that holds {holds!r}")


async def test_a_gate_with_a_certificate_of_ones_own_is_trusted_where_its_ca_is_named(tmp_path):
    authority, gate_pem = trustme.CA(), tmp_path / "gate.pem"
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(gate_pem))
    known = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(known))
    environ = {
        "SPECGATE_SPEC_URL": NOWHERE,
        "SPECGATE_PLAIN_URL": NOWHERE,
        "SPECGATE_TLS_CERT_FILE": str(gate_pem),
    }
    async with serve_process(environ) as gate:
        assert gate.url.startswith("https://")
        code, _, told = await run("--url", gate.url)
        assert code == 4
        assert "certificate verify failed" in told
        code, page, told = await run("--url", gate.url, authority=known)
        assert (code, told) == (0, "")
        assert rows(page)["side"][0] == "plain"
        gate.process.send_signal(signal.SIGINT)
        assert await gate.stopped() == 0

"""A client whose host vanished sends no FIN: the kernel is told to ask after each."""

import os
import socket
from pathlib import Path

import pytest

from tests.support import live
from tests.support.client import RawClient, connect
from tests.support.lanes import ScriptedLane
from tests.support.process import serve_process
from tests.support.stage import stage

LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")


def accepted(client: RawClient) -> socket.socket:
    """The gate's end of a client's connection, in this process: a duplicate of it."""
    ours, theirs = (client.writer.get_extra_info(end) for end in ("sockname", "peername"))
    for name in os.listdir("/proc/self/fd"):
        try:
            sock = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            if (sock.getsockname(), sock.getpeername()) == (theirs, ours):
                return sock
        except OSError:
            pass
        sock.close()
    raise AssertionError("the gate has no such connection")


@LINUX
@pytest.mark.parametrize("portable", [False, True], ids=["own", "portable"])
async def test_an_accepted_connection_is_asked_after(
    portable: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live, "PORTABLE", portable)
    async with stage() as on, connect(on.url) as client:
        await client.request(b"GET", b"/livez")
        with accepted(client) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            tcp = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
            assert [sock.getsockopt(socket.IPPROTO_TCP, one) for one in tcp] == [30, 10, 3]


def timer(pid: int, local: int, remote: int) -> tuple[int, float]:
    """The kernel's timer on a connection between two ports: its kind (2: keep-alive), and the
    seconds until it rings."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(fields[column].split(":")[1], 16) for column in (1, 2)]
        if ports == [local, remote]:
            kind, _, when = fields[5].partition(":")
            return int(kind, 16), int(when, 16) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("no such connection")


@LINUX
async def test_specgate_serve_has_its_clients_asked_after():
    async with ScriptedLane() as lane:
        environ = {"SPECGATE_SPEC_URL": lane.url, "SPECGATE_PLAIN_URL": lane.url}
        async with serve_process(environ) as gate, connect(gate.url) as client:
            await client.request(b"GET", b"/livez")
            ends = [client.writer.get_extra_info(name)[1] for name in ("peername", "sockname")]
            kind, rings_in_s = timer(gate.pid, *ends)
            assert kind == 2
            assert 25 < rings_in_s <= 30

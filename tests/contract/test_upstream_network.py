"""The contract of an upstream: addresses, names, and what the environment says of networks.

Cases N01 to N05. Names are given by a loop of the test's own, so no file of the machine is touched.
"""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from specgate.core.errors import ConnectFailed
from specgate.core.lanes import Lane
from specgate.upstream.base import Origin, Upstream
from specgate.upstream.pool import PooledUpstream
from tests.contract.asking import OK, ask, get
from tests.contract.conftest import Form
from tests.contract.engine import Engine, answers

ANSWERS = answers(*[OK] * 100)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


ON_ASYNCIO = pytest.mark.parametrize("form", ["pooled", "httpx"], indirect=True, scope="session")


class NamingLoop(asyncio.SelectorEventLoop):
    """A loop that resolves some names itself, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, list[str]] = {}
        self.asked = 0

    async def getaddrinfo(self, host: Any, port: Any, **kinds: Any) -> Any:
        self.asked += 1
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.names:
            return await super().getaddrinfo(host, port, **kinds)
        found = []
        for address in self.names[name]:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            at = (address, port, 0, 0) if ":" in address else (address, port)
            found.append((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", at))
        return found


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=NamingLoop) as runner:
        runner.run(scenario)


def naming() -> NamingLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, NamingLoop)
    return loop


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=ipv6)])
def test_n02_address_needs_no_resolver(host: str):
    """It runs in a thread, behind whatever else a busy machine does in threads. (httpx asks it.)"""

    async def scenario() -> None:
        upstream = PooledUpstream(connect_timeout_s=20)
        async with Engine(ANSWERS, host=host) as engine:
            asked = naming().asked
            assert (await ask(upstream, engine)).body == b"ok"
            assert naming().asked == asked
        await upstream.aclose()

    run(scenario())


@ipv6
async def test_n02_ipv6_address(upstream: Upstream):
    async with Engine(ANSWERS, host="::1") as engine:
        assert engine.url.startswith("http://[::1]:")
        assert (await ask(upstream, engine)).body == b"ok"


def test_n02_host_header_of_an_ipv6_lane():
    assert Origin.of(Lane.SPEC, "http://[::1]:30000").authority == b"[::1]:30000"
    assert Origin.of(Lane.SPEC, "https://[2001:db8::1]").authority == b"[2001:db8::1]"


@ON_ASYNCIO
def test_n03_name_is_asked_anew_for_each_connection(form: Form):
    """A lane moved, and the gate kept to the old address."""

    async def scenario() -> None:
        upstream = form.build()
        async with (
            Engine(ANSWERS, host="127.0.0.1", name="lane.test") as old,
            Engine(ANSWERS, host="127.0.0.2", port=old.port) as new,
        ):
            naming().names["lane.test"] = ["127.0.0.1"]
            await ask(upstream, old)
            naming().names["lane.test"] = ["127.0.0.2"]
            if form.connections(2) == 1:
                await ask(upstream, old)
                assert (len(old.connections), len(new.connections)) == (1, 0), "kept alive"
            old.connections[0].close()
            await asyncio.sleep(0.02)
            await ask(upstream, old)
            assert (len(old.connections), len(new.connections)) == (1, 1)
        await upstream.aclose()

    run(scenario())


@ON_ASYNCIO
def test_n03_failure_is_not_remembered(form: Form):
    async def scenario() -> None:
        upstream = form.build()
        async with Engine(ANSWERS, name="late.invalid") as engine:
            with pytest.raises(ConnectFailed):
                await ask(upstream, engine)
            naming().names["late.invalid"] = ["127.0.0.1"]
            assert (await ask(upstream, engine)).body == b"ok"
        await upstream.aclose()

    run(scenario())


@ipv6
@ON_ASYNCIO
def test_n04_localhost_with_an_address_where_nobody_listens(form: Form):
    """`localhost` is ::1 first, and the engine is on 127.0.0.1 only; or the other way round."""

    async def scenario() -> None:
        loop = naming()
        for order, host in (
            (["::1", "127.0.0.1"], "127.0.0.1"),
            (["127.0.0.1", "::1"], "::1"),
        ):
            upstream = form.build()
            loop.names["localhost"] = order
            async with Engine(ANSWERS, host=host, name="localhost") as engine:
                begun = loop.time()
                assert (await ask(upstream, engine)).body == b"ok"
                assert loop.time() - begun < 0.5
            await upstream.aclose()

    run(scenario())


@pytest.mark.parametrize("form", ["pooled"], indirect=True, scope="session")
def test_n04_address_that_swallows_packets(form: Form):
    """One of two addresses never answers, not even with a refusal: the other is tried beside it."""

    async def scenario() -> None:
        loop = naming()
        async with Engine(ANSWERS, host="127.0.0.1", name="half.test") as engine:
            with socket.socket() as full:
                # A full backlog: the kernel drops what comes.
                full.bind(("127.0.0.3", engine.port))
                full.listen(0)
                clogs = [socket.socket() for _ in range(3)]
                for clog in clogs:
                    clog.setblocking(False)
                    clog.connect_ex(("127.0.0.3", engine.port))
                upstream = form.build()
                loop.names["half.test"] = ["127.0.0.3", "127.0.0.1"]
                begun = loop.time()
                assert (await ask(upstream, engine)).body == b"ok"
                assert 0.2 < loop.time() - begun < 1
                await upstream.aclose()
                for clog in clogs:
                    clog.close()

    run(scenario())


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://lane.test", b"/v1/x?y"),
        ("http://lane.test/", b"/v1/x?y"),
        ("http://lane.test/base", b"/base/v1/x?y"),
        ("http://lane.test/base/", b"/base/v1/x?y"),
        ("http://lane.test/a%20b//", b"/a%20b/v1/x?y"),
    ],
)
def test_n05_base_path_is_joined_once(url: str, target: bytes):
    origin = Origin.of(Lane.SPEC, url)
    assert origin.target(b"/v1/x?y") == target
    assert origin.target(b"*") == b"*"


async def test_n01_proxies_of_the_environment(
    upstream: Upstream, form: Form, monkeypatch: pytest.MonkeyPatch
):
    """Nor a .netrc's password."""
    async with Engine(ANSWERS) as proxy, Engine(ANSWERS) as engine:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        built = form.build()
        for one in (upstream, built):
            await ask(one, engine, get())
        await built.aclose()
        assert not proxy.connections
        assert b"authorization" not in engine.connections[0].requests[0].lower()

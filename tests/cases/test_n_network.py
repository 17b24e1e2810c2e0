"""Case N01: what the environment says of networks is not for the lanes."""

from tests.support.client import CHAT, JSON, chat, connect, get
from tests.support.invariants import assert_at_rest
from tests.support.lanes import ScriptedLane
from tests.support.process import serve_process


async def test_n01_proxy_variables():
    """With HTTP_PROXY set, calls to a lane went to the company's proxy."""
    async with (
        ScriptedLane("spec") as spec,
        ScriptedLane("plain") as plain,
        ScriptedLane("proxy") as proxy,
        serve_process(behind(proxy, spec, plain)) as gate,
    ):
        await gate.logged("lane_health", count=2)
        assert (await get(gate.url + "/readyz")).status == 200
        async with connect(gate.url) as client:
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200
            assert (await client.request(b"GET", b"/v1/thing")).status == 404
        assert len(spec.requests) == len(plain.requests) == 1
        assert spec.probes
        assert plain.probes
        assert proxy.connections_total == 0
        await assert_at_rest(gate.url, [spec, plain])


def behind(proxy: ScriptedLane, spec: ScriptedLane, plain: ScriptedLane) -> dict[str, str]:
    """The environment of a gate on a machine that names a proxy for everything."""
    socks = proxy.url.replace("http:", "socks5:")
    proxies = {
        "http_proxy": proxy.url,
        "https_proxy": proxy.url,
        "all_proxy": socks,
        "no_proxy": "",
    }
    return {
        "SPECGATE_SPEC_URL": spec.url,
        "SPECGATE_PLAIN_URL": plain.url,
        "SPECGATE_THRESHOLD": "always",
        "SPECGATE_PROBE_INTERVAL_S": "0.1",
        **proxies,
        **{name.upper(): value for name, value in proxies.items()},
    }

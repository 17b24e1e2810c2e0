"""`specgate bench --json`: its profile, or its plan, and nothing else, on stdout."""

import json

from specgate.core.profile import loads
from tests.bench.engines import pair
from tests.bench.test_bench_command import SHORT, ended, started, urls


async def test_the_profile_is_all_that_stdout_has(tmp_path):
    out = tmp_path / "bench"
    async with pair(time_scale=15) as sims:
        words = (*urls(sims), *SHORT, "--concurrency", "4", "--out", str(out), "--json")
        code, printed, said = await ended(await started(*words))
    assert code in (0, 3), said
    assert printed == (out / "profile.json").read_text()
    assert [level.concurrency for level in loads(printed).levels] == [4]
    assert str(out / "profile.json") in said


async def test_the_plan_of_levels(tmp_path):
    async with pair() as sims:
        words = (
            *urls(sims),
            "--concurrency",
            "1,10",
            "--out",
            str(tmp_path),
            "--dry-run",
            "--json",
        )
        code, printed, said = await ended(await started(*words))
    assert code == 0, said
    plan = json.loads(printed)
    assert plan["arms"].keys() == {"spec", "plain"}
    assert plan["budget_s"] == 900
    assert [(block["concurrency"], block["repeat"]) for block in plan["blocks"]] == [
        *((1, 0), (1, 1)),
        *((10, 0), (10, 1)),
    ]
    assert plan["blocks"][1]["arms"] == ["plain", "spec"]
    assert plan["blocks"][3]["requests"] == 50
    assert all(block["expected_s"] > 0 for block in plan["blocks"])


async def test_the_plan_of_arrivals(tmp_path):
    async with pair() as sims:
        words = (*urls(sims), "--open-loop", "2", "--repeats", "1", "--out", str(tmp_path))
        code, printed, said = await ended(await started(*words, "--dry-run", "--json"))
    assert code == 0, said
    (block,) = json.loads(printed)["blocks"]
    assert block["rate"] == 2
    assert block["requests"] == 120
    assert block["expected_s"] > 60


async def test_nothing_that_counts_is_no_document(tmp_path):
    words = ("--arm", "plain=http://127.0.0.1:9", "--out", str(tmp_path / "out"), "--json")
    code, printed, said = await ended(await started(*words))
    assert code == 4
    assert printed == ""
    assert "took no connection" in said

"""Curves by context on a live gate: what engines say of their prompts chooses the curves."""

from pathlib import Path

from specgate.core.profile import dumps
from tests.replay.lanes import LENGTHS, several_lengths
from tests.support.control import TOKEN, change
from tests.support.lanes import delta, sse_response, usage
from tests.support.stage import Stage, stage
from tests.support.steps import DONE

ENOUGH = 8


def written(tmp_path: Path) -> Path:
    path = tmp_path / "profile.json"
    path.write_text(dumps(several_lengths(*LENGTHS)))
    return path


async def ask(on: Stage, prompt_tokens: int | None, times: int) -> None:
    """So many requests, whose engine says that their prompts have so many tokens."""
    told = [] if prompt_tokens is None else [usage(prompt_tokens, 2)]
    for lane in (on.spec, on.plain):
        lane.answer("*", sse_response([delta("Hi"), *told, DONE]))
    for _ in range(times):
        assert (await on.ask()).status == 200


async def pays_up_to(on: Stage) -> tuple[float, float | None]:
    """The load up to which speculation pays, and the prompts' mean length, by the status."""
    on.gate.service.gate.tick()
    weighing = (await on.gate.status())["weighing"]
    [(low, high)] = weighing["pays"]
    assert low == 0
    return round(high), weighing["prompt_tokens"]


async def test_the_curves_are_those_of_the_prompts_that_come(tmp_path):
    async with stage(threshold="", profile=written(tmp_path)) as on:
        # Nothing is known of the prompts: the most cautious curves of the three.
        assert await pays_up_to(on) == (3, None)
        await ask(on, 128, ENOUGH - 1)
        assert await pays_up_to(on) == (3, None)
        await ask(on, 128, 1)
        assert await pays_up_to(on) == (104, 128)
        assert (await on.ended(8)).prompt_tokens == 128
        # Longer ones come, and move the mean.
        await ask(on, 41_000, 60)
        edge, mean = await pays_up_to(on)
        assert 3 <= edge < 39
        assert mean is not None
        assert 20_000 < mean < 41_000
        assert await on.sample('specgate_prompt_tokens_total{lane="spec"}') > 128 * 8 - 1


async def test_engines_that_tell_no_length_leave_the_main_curves(tmp_path):
    async with stage(threshold="", profile=written(tmp_path)) as on:
        await ask(on, None, 2 * ENOUGH)
        assert await pays_up_to(on) == (3, None)


async def test_a_threshold_by_hand_ends_it(tmp_path):
    async with stage(threshold="", profile=written(tmp_path), admin_token=TOKEN) as on:
        assert on.gate.service.gate.follows_prompts
        await change(on, b"PUT", "threshold", {"threshold": 5})
        assert not on.gate.service.gate.follows_prompts
        assert (await on.gate.status())["weighing"] is None

"""What an alternation asks of engines, and which answers mean that it failed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from specgate.control.alternation_engines import Engines, patient_client
from specgate.control.alternation_hands import Found, StepFailedError
from specgate.core.alternation import Step
from specgate.core.config import AlternationConfig
from specgate.core.lanes import Lane
from specgate.engines.base import Engine
from specgate.engines.parking import PROMPT, is_sleeping, makes_sense, said, trial
from specgate.upstream.base import Origin

VLLM = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]})
LLAMACPP = json.dumps({"data": [{"id": "m", "owned_by": "llamacpp"}]})
SENSE = " counts what is in flight on both of its lanes. The gate counts"


class Fake:
    """An engine. answers: by path, the status and the body; one that is not there is 404. A list is
    answered one after the other, the last for ever."""

    def __init__(self, **answers: tuple[int, str] | list[tuple[int, str]]) -> None:
        self.answers = {f"/{name}": answer for name, answer in answers.items()}
        self.asked: list[str] = []
        self.keys: set[str] = set()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        self.keys.add(request.headers.get("authorization", ""))
        answer = self.answers.get(request.url.path, (404, ""))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return httpx2.Response(answer[0], text=answer[1])

    def posted(self) -> list[str]:
        return [asked.removeprefix("POST ") for asked in self.asked if asked.startswith("POST")]


@asynccontextmanager
async def hands_on(
    fake: Fake, lane: Lane = Lane.SPEC, config: AlternationConfig | None = None
) -> AsyncIterator[tuple[Engines, Origin]]:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(fake)) as client:
        yield (
            Engines(config or AlternationConfig(), client),
            Origin.of(lane, "http://engine:8000", b"Bearer k"),
        )


async def test_vllm_is_put_to_sleep_and_woken():
    fake = Fake(
        is_sleeping=(200, '{"is_sleeping": false}'),
        sleep=(200, ""),
        wake_up=(200, ""),
        **{"v1/models": (200, VLLM)},
    )
    async with hands_on(fake) as (hands, origin):
        assert await hands.look(origin) is Found.AWAKE
        await hands.wake(origin)
        assert fake.posted() == []
        await hands.park(origin)
        assert fake.posted() == ["/sleep?level=1&mode=wait"]
        fake.answers["/is_sleeping"] = (200, '{"is_sleeping": true}')
        assert await hands.look(origin) is Found.ASLEEP
        await hands.park(origin)
        assert fake.posted() == ["/sleep?level=1&mode=wait"]
        fake.answers["/is_sleeping"] = [
            (200, '{"is_sleeping": true}'),
            (200, '{"is_sleeping": false}'),
        ]
        await hands.wake(origin)
        assert fake.posted()[1:] == ["/wake_up"]
    assert fake.keys == {"Bearer k"}


async def test_sglang_is_paused_first_and_goes_on_last():
    models = json.dumps({"data": [{"id": "m", "owned_by": "sglang"}]})
    fake = Fake(
        ready=(200, ""),
        ping=(200, ""),
        pause_generation=(200, ""),
        continue_generation=(200, ""),
        release_memory_occupation=(200, ""),
        resume_memory_occupation=(200, ""),
        **{"v1/models": (200, models)},
    )
    async with hands_on(fake) as (hands, origin):
        await hands.park(origin)
        assert fake.posted() == ["/pause_generation", "/release_memory_occupation"]
        fake.answers["/ready"] = [(503, ""), (200, "")]
        await hands.wake(origin)
        assert fake.posted()[2:] == ["/resume_memory_occupation", "/continue_generation"]


async def test_sglang_that_knows_no_pause_is_remembered_as_asleep():
    models = json.dumps({"data": [{"id": "m", "owned_by": "sglang"}]})
    fake = Fake(
        ready=(200, ""),
        release_memory_occupation=(200, ""),
        resume_memory_occupation=(200, ""),
        **{"v1/models": (200, models)},
    )
    async with hands_on(fake) as (hands, origin):
        await hands.park(origin)
        assert await hands.look(origin) is Found.ASLEEP
        await hands.wake(origin)
        assert await hands.look(origin) is Found.AWAKE
        assert fake.posted()[-2:] == ["/resume_memory_occupation", "/continue_generation"]


async def test_an_engine_without_such_calls_names_the_setting_that_helps():
    fake = Fake(**{"v1/models": (200, LLAMACPP)})
    async with hands_on(fake, Lane.PLAIN) as (hands, origin):
        with pytest.raises(StepFailedError, match="SPECGATE_PLAIN_PARK") as caught:
            await hands.park(origin)
    assert caught.value.step is Step.PARK


async def test_an_engine_that_wants_another_key_is_not_taken_for_parked():
    fake = Fake(sleep=(401, ""), **{"v1/models": (200, VLLM)})
    async with hands_on(fake) as (hands, origin):
        with pytest.raises(StepFailedError, match="answered 401"):
            await hands.park(origin)


async def test_where_nothing_takes_a_connection_there_is_nothing_to_park():
    dead = Origin.of(Lane.SPEC, "http://127.0.0.1:1")
    async with patient_client() as client:
        hands = Engines(AlternationConfig(), client)
        assert await hands.look(dead) is Found.GONE
        await hands.park(dead)
        with pytest.raises(StepFailedError, match="takes no connection"):
            await hands.wake(dead)


async def test_one_that_starts_is_neither_ready_nor_asleep():
    fake = Fake(ready=(503, ""), ping=(503, ""))
    async with hands_on(fake) as (hands, origin):
        assert await hands.look(origin) is Found.UNREADY
        with pytest.raises(StepFailedError, match="neither ready nor asleep"):
            await hands.wake(origin)
        fake.answers["/ping"] = (200, "")
        assert await hands.look(origin) is Found.ASLEEP


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, "{}", "answered 500"),
        (200, "not JSON", "answered without a text"),
        (200, '{"choices": []}', "answered without a text"),
        (200, '{"choices": [{"text": "!!!!!!!!"}]}', "nonsense"),
        (200, '{"choices": [{"text": ""}]}', "nonsense"),
    ],
)
async def test_a_trial_that_is_not_answered_well_fails(status: int, body: str, why: str):
    fake = Fake(**{"v1/models": (200, VLLM), "v1/completions": (status, body)})
    async with hands_on(fake, Lane.PLAIN) as (hands, origin):
        with pytest.raises(StepFailedError, match=why) as caught:
            await hands.check(origin)
    assert caught.value.step is Step.CHECK


def counters(drafts: int, accepted: int) -> tuple[int, str]:
    name = "vllm:spec_decode_num"
    return 200, (
        f"vllm:generation_tokens_total {drafts + accepted}\nvllm:request_success_total 1\n"
        f"{name}_drafts_total {drafts}\n{name}_draft_tokens_total {drafts * 3}\n"
        f"{name}_accepted_tokens_total {accepted}\n"
    )


@pytest.mark.parametrize(
    ("after", "stuck"), [(counters(147, 150), True), (counters(120, 177), False)]
)
async def test_counters_tell_an_accept_length_that_is_stuck(after: tuple[int, str], stuck: bool):
    fake = Fake(
        metrics=[counters(100, 150), after],
        **{
            "v1/models": (200, VLLM),
            "v1/completions": (200, json.dumps({"choices": [{"text": SENSE}]})),
        },
    )
    async with hands_on(fake) as (hands, origin):
        if not stuck:
            await hands.check(origin)
            return
        with pytest.raises(StepFailedError, match=r"stuck at 1\.00") as caught:
            await hands.check(origin)
    assert caught.value.step is Step.ACCEPT


async def test_an_engine_that_does_not_tell_what_it_has_is_taken_for_idle_if_that_is_no_danger():
    models = {name: json.dumps({"data": [{"owned_by": name}]}) for name in ("vllm", "sglang")}
    async with hands_on(Fake(**{"v1/models": (200, models["vllm"])})) as (hands, origin):
        assert await hands.in_hand(origin) == 0
    sglang = Fake(**{"v1/models": (200, models["sglang"])})
    async with hands_on(sglang) as (hands, origin):
        with pytest.raises(StepFailedError, match="busy it would die"):
            await hands.in_hand(origin)
    command = AlternationConfig(park={Lane.SPEC: ("true",)})
    async with hands_on(sglang, config=command) as (hands, origin):
        assert await hands.in_hand(origin) == 0


@pytest.mark.parametrize(
    ("text", "before", "sensible"),
    [
        (SENSE, None, True),
        (SENSE, "something else that was said before", True),
        ("morning river of the stone", "morning river of a lamp", True),
        ("morning river of the stone", None, True),
        ("morning river of the stone", "a lamp in the window", False),
        ("!!!!!!!!!!!!!!!!", None, False),
        ("the the the the", None, False),
        ("\n\n\n", None, False),
        ("", "", False),
        ("\u9580\u306f\u98db\u884c\u4e2d\u306e\u3082\u306e\u3092\u6570\u3048\u308b", None, True),
    ],
)
def test_what_makes_sense(text: str, before: str | None, sensible: bool):
    assert makes_sense(text, before) is sensible


def test_what_is_no_answer_is_none():
    for engine in Engine:
        for body in ("", "[]", "{}", "null", "[" * 100_000, '{"text": 1, "meta_info": {}}'):
            assert said(engine, body) is None
    for body in ("", "[]", '{"is_sleeping": "yes"}', "null"):
        assert is_sleeping(body) is None


def test_sglang_tells_the_accept_length_of_the_answer_itself():
    meta = {"completion_tokens": 49, "spec_verify_ct": 24}
    found = said(Engine.SGLANG, json.dumps({"text": "x", "meta_info": meta}))
    assert found is not None
    assert found.accept_length == 2.0
    plain = said(Engine.SGLANG, json.dumps({"text": "x", "meta_info": {"completion_tokens": 49}}))
    assert plain is not None
    assert plain.accept_length is None


def test_the_trial_names_the_model_where_it_is_known():
    assert trial(Engine.VLLM, "m").body["model"] == "m"
    assert "model" not in trial(Engine.UNKNOWN, None).body
    assert trial(Engine.SGLANG, "m").body["text"] == PROMPT

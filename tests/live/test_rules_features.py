"""What speculation would change or refuse goes to the plain lane, by the spec lane's engine."""

import asyncio
import json
from typing import Any

import pytest

from specgate.core.lanes import Lane
from specgate.core.policy import Mode
from specgate.core.routes import RouteClass
from specgate.engines.base import Engine
from specgate.engines.routes import classify
from specgate.upstream.base import Origin
from tests.support.client import CHAT, JSON, Response, chat, connect
from tests.support.figures import total
from tests.support.lanes import ScriptedLane, json_response, refuses, response
from tests.support.live import LiveGate, running_gate
from tests.support.stage import Stage, stage

CHANGED, REFUSED = b"spec_changes", b"spec_refuses"

TO_PLAIN: list[tuple[Engine, dict[str, Any], bytes]] = [
    (Engine.SGLANG, {"min_p": 0.05}, CHANGED),
    (Engine.SGLANG, {"custom_logit_processor": "{}"}, CHANGED),
    (Engine.SGLANG, {"frequency_penalty": 0.5}, CHANGED),
    (Engine.SGLANG, {"presence_penalty": -0.5}, CHANGED),
    (Engine.SGLANG, {"repetition_penalty": 1.1}, CHANGED),
    (Engine.SGLANG, {"beam_width": 4}, REFUSED),
    (Engine.SGLANG, {"return_sampling_mask": True}, REFUSED),
    (Engine.SGLANG, {"min_p": 0.1, "beam_width": 4}, REFUSED),
    (Engine.VLLM, {"min_p": 0.05}, REFUSED),
    (Engine.VLLM, {"logit_bias": {"42": -100}}, REFUSED),
    (Engine.VLLM, {"use_beam_search": True}, REFUSED),
    (Engine.VLLM, {"best_of": 4}, REFUSED),
    (Engine.LLAMACPP, {"logprobs": True}, CHANGED),
    (Engine.LLAMACPP, {"n_probs": 5}, CHANGED),
    (Engine.UNKNOWN, {"min_p": 0.05}, CHANGED),
    (Engine.UNKNOWN, {"logprobs": True}, CHANGED),
]
TO_SPEC: list[tuple[Engine, dict[str, Any]]] = [
    (Engine.SGLANG, {"min_p": 0, "frequency_penalty": 0.0, "presence_penalty": None}),
    (Engine.SGLANG, {"repetition_penalty": 1.0, "beam_width": 1, "return_sampling_mask": False}),
    (Engine.SGLANG, {"logit_bias": {"42": -100}, "logprobs": True, "custom_logit_processor": ""}),
    (Engine.VLLM, {"frequency_penalty": 0.5, "logprobs": True, "logit_bias": {}, "min_p": 0.0}),
    (Engine.VLLM, {"best_of": 1}),
    (Engine.LLAMACPP, {"min_p": 0.05, "repetition_penalty": 1.2, "logprobs": False}),
    (Engine.UNKNOWN, {"logit_bias": {"42": -100}, "beam_width": 4}),
    (Engine.SGLANG, {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "seed": 1, "stop": ["x"]}),
]


def runs(on: Stage, engine: Engine) -> None:
    """The spec lane runs this engine."""
    gate = on.gate.service.gate
    gate.name_engine(gate.origin(Lane.SPEC), engine)


def decision(reply: Response) -> tuple[bytes, bytes]:
    (lane,), (reason,) = reply.values(b"x-specgate-lane"), reply.values(b"x-specgate-reason")
    return lane, reason


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("upstream", ["pooled", "httpx"])
async def test_features_that_speculation_changes_or_refuses_go_to_plain_untouched(upstream: str):
    async with stage(upstream=upstream, forced_share="off") as on:
        for engine, fields, reason in TO_PLAIN:
            runs(on, engine)
            body = chat(**fields)
            reply = await on.ask(body=body)
            assert (reply.status, *decision(reply)) == (200, b"plain", reason), (engine, fields)
            assert on.plain.requests[-1].body == body
        assert on.spec.requests == []
        assert total(await on.gate.metrics(), "specgate_decisions_total", reason="spec_changes") > 0


async def test_neutral_values_and_what_speculation_leaves_alone_follow_the_side():
    async with stage(forced_share="off") as on:
        for engine, fields in TO_SPEC:
            runs(on, engine)
            body = chat(**fields)
            assert decision(await on.ask(body=body)) == (b"spec", b"always"), (engine, fields)
            assert on.spec.requests[-1].body == body
        assert on.plain.requests == []


async def test_sampling_params_of_generate_count_too():
    async with stage(forced_share="off") as on:
        runs(on, Engine.SGLANG)
        one = {"text": "a", "sampling_params": {"min_p": 0.1}}
        batch = {"text": ["a", "b"], "sampling_params": [{"min_p": 0.1}, {"min_p": 0.1}]}
        for asked in (one, batch):
            body = json.dumps(asked).encode()
            reply = await on.ask(target=b"/generate", body=body)
            assert decision(reply) == (b"plain", CHANGED)
            assert on.plain.requests[-1].body == body
        plain = json.dumps({"text": "a", "sampling_params": {"min_p": 0}}).encode()
        assert decision(await on.ask(target=b"/generate", body=plain)) == (b"spec", b"always")


async def test_the_engine_is_learnt_from_the_lane_itself():
    """`logit_bias` is served by SGLang under speculation, and refused by vLLM."""
    body = chat(logit_bias={"1": 2})
    async with stage(forced_share="off") as on:
        gate = on.gate.service.gate
        assert decision(await on.ask(body=body)) == (b"spec", b"always")
        card = {"id": "m", "object": "model", "owned_by": "vllm"}
        on.spec.answer("/v1/models", json_response(200, {"object": "list", "data": [card]}))
        # A new URL is a new lane: it is asked for its name again.
        gate.set_origin(Origin.of(Lane.SPEC, f"http://localhost:{on.spec.port}"))
        async with asyncio.timeout(5):
            while gate.view().lanes[Lane.SPEC].engine != "vllm":
                await asyncio.sleep(0.02)
        assert decision(await on.ask(body=body)) == (b"plain", REFUSED)


async def test_rules_can_be_turned_off():
    async with stage(rules="off") as on:
        runs(on, Engine.SGLANG)
        assert decision(await on.ask(body=chat(min_p=0.5))) == (b"spec", b"always")


async def test_a_body_beyond_the_peek_limit_has_no_rule():
    async with stage(peek_limit=100) as on:
        runs(on, Engine.SGLANG)
        body = chat(min_p=0.5, user="x" * 200)
        assert decision(await on.ask(body=body)) == (b"spec", b"always")
        assert on.spec.requests[-1].body == body


async def test_what_cannot_be_read_is_no_rule_s():
    async with stage() as on:
        on.spec.answer("*", response(200, b"ok"))
        for body in (b'{"min_p": 0.5', b"[" * 5000, b"\x1f\x8b\x08min_p", b'[{"min_p": 1}]'):
            reply = await on.ask(body=body)
            assert decision(reply) == (b"spec", b"always")
            assert on.spec.requests[-1].body == body


async def test_a_forced_mode_is_above_the_rule():
    """An operator who forces the spec side may be taking the plain engine down."""
    async with stage(threshold=8) as on:
        runs(on, Engine.SGLANG)
        on.gate.service.gate.set_mode(Mode.SPEC)
        assert decision(await on.ask(body=chat(min_p=0.5))) == (b"spec", b"forced")


@pytest.mark.parametrize("ejected", [True, False])
async def test_with_the_plain_lane_down_the_spec_lane_serves_and_says_so(ejected: bool):
    """The gate is never the reason that a request fails: whether the lane is known to be down, or
    takes no connection just then."""
    async with ScriptedLane("spec") as spec:
        with refuses() as plain:
            interval = 0.1 if ejected else 60
            async with running_gate(
                spec.url,
                plain,
                threshold="always",
                probe_interval_s=interval,
                ready=ejected,
            ) as gate:
                body = chat(min_p=0.5)
                reply = await asked(gate, body)
                assert (reply.status, *decision(reply)) == (200, b"spec", b"despite_rule")
                assert spec.requests[-1].body == body
                assert len(spec.requests) == 1


async def asked(gate: LiveGate, body: bytes) -> Response:
    async with connect(gate.url) as client:
        return await client.request(b"POST", CHAT, [JSON], body)


def test_every_route_that_decodes_nothing_is_no_load():
    """Of SGLang 0.5.23, vLLM 0.33.0 and llama.cpp: what scores, embeds, ranks, tokenizes, tells."""
    paths = [
        "/v1/embeddings",
        "/v1/classify",
        "/v1/score",
        "/v1/decisions",
        "/v1/rerank",
        "/v2/rerank",
        "/rerank",
        "/v1/tokenize",
        "/tokenize",
        "/v1/detokenize",
        "/detokenize",
        "/encode",
        "/classify",
        "/score",
        "/pooling",
        "/v2/embed",
        "/v1/messages/count_tokens",
        "/api/tags",
        "/api/show",
        "/parse_function_call",
        "/separate_reasoning",
        "/v1/models",
        "/v1/loads",
        "/server_info",
        "/get_server_info",
        "/model_info",
        "/version",
        "/load",
        "/ping",
        "/v1/chat/completions/render",
        "/v1/completions/render",
        "/tokenizer_info",
        "/props",
        "/slots",
        "/embedding",
        "/apply-template",
        "/v1/realtime",
    ]
    for path in paths:
        for method in ("GET", "POST", "PUT") if path not in ("/props", "/slots") else ("GET",):
            assert classify(method, path) is RouteClass.OTHER, (method, path)

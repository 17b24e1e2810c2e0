"""Clients' keys and engines' keys, over both forms."""

import json

import pytest

from specgate.core.events import HealthChanged, Outcome, RequestEnded
from specgate.core.health import Health
from specgate.core.lanes import Lane
from specgate.settings import load
from specgate.wiring import build
from tests.support.client import CHAT, JSON, chat, connect, request_bytes
from tests.support.lanes import ScriptedLane, json_response
from tests.support.live import environment, gate_in
from tests.support.stage import stage

both_forms = pytest.mark.usefixtures("form")

KEYS = "sk-one,sk-two"


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"Authorization", b"Bearer " + key.encode())


@both_forms
async def test_one_of_several_keys_is_asked_for():
    async with stage(api_keys=KEYS) as on:
        for key in ("sk-one", "sk-two"):
            assert (await on.ask(headers=[JSON, bearer(key)])).status == 200
        assert (await on.ask(headers=[JSON, (b"authorization", b"bearer  sk-two ")])).status == 200
        assert (await on.ask(headers=[JSON, (b"X-Api-Key", b"sk-one")])).status == 200
        for headers in (
            [],
            [bearer("sk-three")],
            [bearer("sk-one,sk-two")],
            [bearer("")],
            [bearer("sk-on")],
            [bearer("sk-one\xff")],
            [(b"Authorization", b"Basic sk-one")],
            [(b"Authorization", b"sk-one")],
            [(b"X-Api-Key", b"sk-three")],
        ):
            reply = await on.ask(headers=[JSON, *headers])
            assert reply.status == 401, headers
            assert reply.values(b"www-authenticate") == [b"Bearer"]
            error = json.loads(reply.body.data)["error"]
            assert error.keys() == {"message", "type", "param", "code"}
            assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert len(on.spec.requests) == 4


@both_forms
async def test_every_path_of_the_engines_needs_one_and_none_of_the_gates():
    async with stage(api_keys=KEYS) as on:
        for target in (b"/v1/models", b"/", b"/generate", b"/flush_cache", b"//metrics"):
            assert (await on.ask(b"GET", target, [])).status == 401, target
        for target in (b"/livez", b"/readyz", b"/health", b"/metrics", b"/_specgate/status"):
            assert (await on.ask(b"GET", target, [])).status == 200, target
        assert on.plain.requests == on.spec.requests == []


@both_forms
async def test_c09_the_gates_key_reaches_no_engine():
    async with stage(api_keys=KEYS) as on:
        headers = [
            *(JSON, bearer("sk-one"), (b"X-API-Key", b"sk-two"), bearer("sk-else")),
            *((b"Api-Key", b"sk-two"), (b"Connection", b"x-thing")),
        ]
        assert (await on.ask(headers=headers)).status == 200
        assert (await on.ask(headers=headers[:-1])).status == 200
        for request in on.spec.requests:
            assert b"sk-" not in b"".join(name + value for name, value in request.headers)
            assert b"authorization" not in {name.lower() for name, _ in request.headers}


@both_forms
async def test_engines_get_their_own_keys_from_the_gate():
    """On requests, probes and scrapes; whatever key the client sent is not theirs."""
    sglang = json_response(200, {"object": "list", "data": [{"id": "m", "owned_by": "sglang"}]})
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer("/v1/models", sglang)
        environ = environment(
            spec_url=spec.url,
            plain_url=plain.url,
            threshold="always",
            spec_api_key="engine-s",
            plain_api_key="engine-p",
            scrape_interval_s=0.05,
        )
        async with gate_in(environ) as gate, connect(gate.url) as client:
            sent = [JSON, bearer("sk-client"), (b"x-api-key", b"sk-client")]
            await client.request(b"POST", CHAT, sent, chat())
            await client.request(b"GET", b"/v1/thing", sent)
            await client.request(b"GET", b"/v1/thing", [])
            while not any(probe.target == b"/v1/loads" for probe in spec.probes):
                await gate.http.get("/livez")
        asked = [(spec, b"Bearer engine-s"), (plain, b"Bearer engine-p")]
        for lane, key in asked:
            asked_for = [*lane.requests, *lane.probes]
            assert {b"/ready", b"/v1/models"} <= {request.target for request in asked_for}
            assert any(request.method == b"POST" for request in spec.requests)
            for request in asked_for:
                assert request.values(b"authorization") == [key], request.target
                assert request.values(b"x-api-key") == []


@both_forms
async def test_without_any_key_what_clients_send_goes_through():
    async with stage() as on:
        sent = [(b"authorization", b"Bearer sk-client"), (b"x-api-key", b"sk-other")]
        await on.ask(headers=[JSON, *sent])
        (request,) = on.spec.requests
        assert [pair for pair in request.headers if pair in sent] == sent
        assert all(probe.values(b"authorization") == [] for probe in on.spec.probes)


@both_forms
async def test_c09_a_key_for_one_lane_alone_goes_to_no_other():
    sent = [(b"authorization", b"Bearer sk-client"), (b"x-api-key", b"sk-1"), (b"api-key", b"sk-2")]
    async with stage(spec_api_key="engine") as on:
        await on.ask(headers=[JSON, *sent])
        await on.ask(b"GET", b"/v1/thing", sent)
        (to_spec,), (to_plain,) = on.spec.requests, on.plain.requests
        assert to_spec.values(b"authorization") == [b"Bearer engine"]
        assert not [pair for pair in to_spec.headers if pair in sent]
        assert [pair for pair in to_plain.headers if pair in sent] == sent
        assert not [p for p in on.plain.probes if p.values(b"authorization")]


@pytest.mark.parametrize("ready", [200, 404])
async def test_g09_a_wrong_key_for_a_lane_is_said_and_ejects_nobody(ready: int):
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        spec.answer("/ready", json_response(ready, {}))
        spec.answer("/v1/models", json_response(401, {"error": "Unauthorized"}))
        environ = environment(spec_url=spec.url, plain_url=plain.url, spec_api_key="wrong")
        async with gate_in(environ) as gate:
            told = await gate.facts.wait_for(
                HealthChanged, where=lambda fact: fact.lane is Lane.SPEC
            )
            assert told.why == "/v1/models answered 401, to the key that the gate has for it"
            assert gate.service.gate.view().lanes[Lane.SPEC].health is Health.HEALTHY


async def test_one_engine_in_both_lanes_needs_one_key():
    async with ScriptedLane("spec") as lane:
        environ = environment(spec_url=lane.url, shadow="spec", spec_api_key="engine")
        async with gate_in(environ) as gate, connect(gate.url) as client:
            await client.request(b"GET", b"/v1/thing")
        assert lane.requests[0].values(b"authorization") == [b"Bearer engine"]


@both_forms
async def test_a_preflight_needs_no_key_and_carries_none():
    preflight = [
        (b"Origin", b"https://app.example"),
        (b"Access-Control-Request-Method", b"POST"),
    ]
    async with stage(api_keys=KEYS, plain_api_key="engine") as on:
        on.plain.answer_next(json_response(200, {}))
        assert (await on.ask(b"OPTIONS", CHAT, preflight, b"")).status == 200
        (request,) = on.plain.requests
        assert request.values(b"authorization") == []
        assert (await on.ask(b"OPTIONS", CHAT, preflight[:1], b"")).status == 401
        assert (await on.ask(b"OPTIONS", CHAT, preflight, b"{}")).status == 401
        assert (await on.ask(b"GET", CHAT, preflight)).status == 401


async def test_a_stranger_is_answered_before_the_body():
    """No `100 Continue`, nothing kept of what is sent all the same, and the connection ends."""
    async with stage(api_keys=KEYS) as on, connect(on.url) as client:
        await client.send(
            request_bytes(
                b"POST", CHAT, [JSON, (b"Expect", b"100-continue"), (b"Content-Length", b"9999999")]
            )
        )
        await client.read_head()
        assert client.status == 401
        assert (await client.read_body()).clean
        assert await client.ended(within_s=4) == "fin"


async def test_a_reload_changes_the_keys_and_loses_nothing(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# of the team\nsk-old\n\n")
    async with ScriptedLane("spec") as spec, ScriptedLane("plain") as plain:
        environ = environment(
            spec_url=spec.url, plain_url=plain.url, threshold="always", api_keys_file=file
        )
        async with gate_in(environ) as gate, connect(gate.url) as client:
            health = gate.service.gate.view().lanes

            async def status(key: str) -> int:
                async with connect(gate.url) as other:
                    headers = [JSON, bearer(key)]
                    return (await other.request(b"POST", CHAT, headers, chat())).status

            assert (await status("sk-old"), await status("sk-new")) == (200, 401)
            file.write_text("sk-new\nsk-other\n")
            environ["SPECGATE_SPEC_API_KEY"] = "engine"
            outcome = await gate.service.reloader.reload("test")
            assert outcome.changed == ("api_keys_file", "spec_api_key")
            assert (await status("sk-old"), await status("sk-new")) == (401, 200)
            assert spec.requests[-1].values(b"authorization") == [b"Bearer engine"]
            assert gate.service.gate.view().lanes[Lane.SPEC].health == health[Lane.SPEC].health
            assert (await gate.service.reloader.reload("test")).changed == ()
            file.write_text("")
            with pytest.raises(ValueError, match="holds no keys"):
                await gate.service.reloader.reload("test")
            assert (await status("sk-new"), await status("sk-old")) == (200, 401)
            del environ["SPECGATE_API_KEYS_FILE"]
            await gate.service.reloader.reload("test")
            assert (await client.request(b"POST", CHAT, [JSON], chat())).status == 200


async def test_refusals_are_counted_and_no_key_is_told():
    async with stage(api_keys=KEYS) as on:
        await on.ask(headers=[JSON, bearer("sk-guess")])
        fact = await on.ended()
        assert (fact.status, fact.outcome, fact.lane) == (401, Outcome.REFUSED, None)
        assert await on.sample("specgate_unauthorized_total") == 1
        on.spec.answer_next(json_response(401, {}))
        assert (await on.ask(headers=[JSON, bearer("sk-one")])).status == 401
        await on.ended(2)
        assert await on.sample("specgate_unauthorized_total") == 1
        told = repr(on.gate.facts.of(RequestEnded))
        assert "sk-" not in told


def test_no_text_of_the_service_holds_a_key():
    secrets = ["sk-one", "sk-two", "engine-s", "engine-p", "the-token"]
    environ = environment(
        spec_url="http://a:1",
        plain_url="http://b:2",
        api_keys=KEYS,
        spec_api_key="engine-s",
        plain_api_key="engine-p",
        admin_token="the-token",
    )
    settings = load(environ).settings
    service = build(settings)
    origins = [service.gate.origin(lane) for lane in service.gate.view().lanes]
    texts = [
        *(repr(settings), str(settings), repr(settings.model_dump()), repr(service)),
        *(repr(origins), repr(service.gate.view()), repr(service.keyring.keys)),
    ]
    for text in texts:
        assert not [secret for secret in secrets if secret in text], text

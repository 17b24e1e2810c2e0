"""What the control surface changes, for whom, and how much it reads for that."""

import pytest

from specgate.admin.auth import BODY_LIMIT
from specgate.core.events import SettingsChanged
from tests.support import live
from tests.support.client import chunked, connect, get, request_bytes
from tests.support.control import KEY, TOKEN, change, message, said
from tests.support.stage import stage

CHANGES = [
    (b"PUT", "threshold", {"threshold": 5}),
    (b"PUT", "mode", {"mode": "plain"}),
    (b"POST", "reload", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_without_a_token_changes_are_refused_with_how_to_allow_them(method, path, body):
    async with stage(threshold=8) as on:
        reply = await change(on, method, path, body)
        assert reply.status == 403
        assert "SPECGATE_ADMIN_TOKEN" in message(reply)
        assert "Authorization: Bearer" in message(reply)
        status = await on.gate.status()
        assert (status["threshold"], status["mode"]) == (8, "auto")
        assert on.gate.facts.of(SettingsChanged) == []


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize(
    "given",
    [None, b"Bearer wrong", b"Bearer ", b"Basic dGhlLXRva2Vu", b"the-token", b"Bearer \xff"],
)
async def test_a_wrong_token_is_refused(method, path, body, given):
    headers = [KEY[1]] + ([(b"Authorization", given)] if given is not None else [])
    async with stage(threshold=8, admin_token=TOKEN) as on:
        reply = await change(on, method, path, body, headers)
        assert reply.status == 401
        assert reply.values(b"www-authenticate") == [b"Bearer"]
        assert TOKEN not in message(reply)
        status = await on.gate.status()
        assert (status["threshold"], status["mode"]) == (8, "auto")
        assert on.gate.facts.of(SettingsChanged) == []


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 401), ("", 403)])
@pytest.mark.parametrize("body", [b"{", b"\xff", b"", b'{"thresold": 8}', b"x" * 200_000])
async def test_a_stranger_is_told_nothing_of_a_body(token: str, status: int, body: bytes):
    """The token comes first: FastAPI's own order would read and decode whatever is sent."""
    settings = {"admin_token": token} if token else {}
    async with stage(**settings) as on:
        reply = await change(on, b"PUT", "threshold", body, [KEY[1]])
        assert (reply.status, reply.body.clean) == (status, True)
        async with connect(on.url) as client:
            # It waits for no byte of it either.
            length = (b"Content-Length", b"1000000000")
            await client.send(request_bytes(b"PUT", b"/_specgate/mode", [KEY[1], length]))
            await client.read_head()
            assert client.status == status


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("portable", [False, True], ids=["own", "portable"])
async def test_a_control_call_s_body_is_bounded(
    framing: str, portable: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live, "PORTABLE", portable)
    padded = b'{"threshold": 5%s}'
    most = padded % (b" " * (BODY_LIMIT - len(padded) + 2))
    async with stage(threshold=4, admin_token=TOKEN) as on:
        for body, status in ((most, 200), (most + b" ", 413), (most * 20, 413)):
            async with connect(on.url) as client:
                headers, sent = KEY, body
                if framing == "chunks":
                    headers = [*KEY, (b"Transfer-Encoding", b"chunked")]
                    sent = chunked(body[:60_000], body[60_000:])
                reply = await client.request(b"PUT", b"/_specgate/threshold", headers, sent)
                assert reply.status == status
                assert reply.body.clean
                if status == 413:
                    assert "at most 65536 bytes" in message(reply)
        assert len(on.gate.facts.of(SettingsChanged)) == 1


async def test_reading_needs_no_token():
    async with stage(admin_token=TOKEN) as on:
        for path in ("/_specgate/status", "/metrics", "/readyz", "/_specgate/docs"):
            assert (await get(on.url + path)).status == 200


# Threshold and mode


@pytest.mark.parametrize(
    ("value", "threshold", "lane", "reason"),
    [
        (2.5, 2.5, b"spec", b"below_threshold"),
        (1, 1, b"plain", b"above_threshold"),
        ("8", 8, b"spec", b"below_threshold"),
        ("never", "never", b"plain", b"never"),
        (0, "never", b"plain", b"never"),
        ("always", "always", b"spec", b"always"),
    ],
)
async def test_put_threshold(value, threshold, lane, reason):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", {"threshold": value})
        assert (reply.status, said(reply)["threshold"]) == (200, threshold)
        assert (await on.gate.status())["threshold"] == threshold
        asked = await on.ask()
        assert asked.values(b"x-specgate-lane") == [lane]
        assert asked.values(b"x-specgate-reason") == [reason]
        [fact] = on.gate.facts.of(SettingsChanged)
        assert (fact.names, fact.source) == (("threshold",), "control")
        assert fact.changes == (("threshold", "4", str(threshold)),)


@pytest.mark.parametrize(
    ("body", "names", "allowed"),
    [
        ({"threshold": -1}, "threshold", "a positive number, never or always"),
        ({"threshold": True}, "threshold", "a positive number, never or always"),
        ({"threshold": "sometimes"}, "threshold", "a positive number, never or always"),
        ({"threshold": [8]}, "threshold", "a positive number, never or always"),
        ({"threshold": 10**400}, "threshold", "a positive number, never or always"),
        (b'{"threshold": NaN}', "threshold", "a positive number, never or always"),
        (b'{"threshold": 1e999}', "threshold", "a positive number, never or always"),
        ({"threshold": None}, "threshold", "number"),
        ({}, "threshold", "required"),
        ({"thresold": 8}, "thresold", "not permitted"),
        ({"threshold": 8, "band": 1}, "band", "not permitted"),
        ([], "body", "JSON object"),
        (b"{", "body", "JSON object"),
        (b"\xff\xfe", "body", "JSON object"),
        (b"", "body", "JSON object"),
    ],
)
async def test_a_wrong_threshold_changes_nothing_and_is_named(body, names, allowed):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", body)
        assert reply.status == 422
        assert names in message(reply)
        assert allowed in message(reply)
        assert (await on.gate.status())["threshold"] == 4
        assert on.gate.facts.of(SettingsChanged) == []


async def test_a_body_of_another_type_is_told_what_to_send():
    """As `curl -X PUT -d '{"threshold": 8}'` sends it."""
    headers = [KEY[0], (b"Content-Type", b"application/x-www-form-urlencoded")]
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "threshold", {"threshold": 8}, headers)
        assert reply.status == 422
        assert "Content-Type: application/json" in message(reply)


async def test_put_mode_forces_a_side_and_gives_it_back():
    async with stage(threshold=4, admin_token=TOKEN) as on:
        for mode, lane, reason in (
            ("plain", b"plain", b"forced"),
            ("spec", b"spec", b"forced"),
            ("auto", b"spec", b"below_threshold"),
        ):
            reply = await change(on, b"PUT", "mode", {"mode": mode})
            assert (reply.status, said(reply)["mode"]) == (200, mode)
            facts = on.gate.facts.of(SettingsChanged)
            assert facts[-1].names == ("mode",)
            assert [each.now for each in facts[-1].changes] == [mode]
            asked = await on.ask()
            assert asked.values(b"x-specgate-lane") == [lane]
            assert asked.values(b"x-specgate-reason") == [reason]


@pytest.mark.parametrize("body", [{"mode": "both"}, {"mode": 1}, {"mode": None}, {}])
async def test_a_wrong_mode_changes_nothing_and_is_named(body):
    async with stage(threshold=4, admin_token=TOKEN) as on:
        reply = await change(on, b"PUT", "mode", body)
        assert reply.status == 422
        assert "mode: " in message(reply)
        if body:
            assert all(mode in message(reply) for mode in ("auto", "spec", "plain"))
        assert (await on.gate.status())["mode"] == "auto"

"""Which headers end at the gate, and which it adds."""

from hypothesis import given
from hypothesis import strategies as st

from specgate.core.headers import (
    CREDENTIALS,
    HOP_BY_HOP,
    end_to_end,
    to_client,
    to_lane,
    usable_id,
)


def lane(pairs, method=b"POST", *, chunked=False):
    return to_lane(pairs, method=method, authority=b"lane:1", request_id=b"id-1", chunked=chunked)


def test_order_duplicates_case_and_odd_bytes_stay():
    pairs = [(b"X-A", b"1"), (b"x-a", b"\xff\xe4"), (b"X-A", b"2")]
    assert end_to_end(pairs) == pairs


def test_what_connection_names_goes_too():
    pairs = [(b"Connection", b"close, X-Secret"), (b"X-Secret", b"1"), (b"X-Kept", b"1")]
    assert end_to_end(pairs) == [(b"X-Kept", b"1")]


def test_host_becomes_the_lane_s_and_ours_never_travel():
    sent = lane([(b"host", b"public"), (b"x-specgate-lane", b"spec"), (b"expect", b"100-continue")])
    assert sent == [(b"host", b"lane:1"), (b"x-request-id", b"id-1"), (b"content-length", b"0")]


def test_a_chunked_body_stays_chunked_and_has_no_length():
    sent = lane([(b"transfer-encoding", b"chunked"), (b"content-length", b"5")], chunked=True)
    assert (b"transfer-encoding", b"chunked") in sent
    assert not any(name == b"content-length" for name, _ in sent)


def test_a_get_gets_no_length():
    assert not any(name == b"content-length" for name, _ in lane([], method=b"GET"))


def test_a_request_id_is_taken_over_only_if_it_can_be_repeated():
    assert usable_id(b"abc-1") == b"abc-1"
    for bad in (None, b"", b"a b", b"a\x1b[1m", b"%0d%0aX: 1", b"\xff", b"x" * 129):
        assert usable_id(bad) is None


def client(pairs, **options):
    options = {"request_id": b"id-1", "accel_buffering": True, "own": [], **options}
    return to_client(pairs, **options).pairs


def test_event_streams_ask_not_to_be_buffered_unless_the_engine_said_something():
    stream = (b"content-type", b"text/event-stream; charset=utf-8")
    assert (b"x-accel-buffering", b"no") in client([stream])
    assert (b"x-accel-buffering", b"no") not in client([stream], accel_buffering=False)
    said = (b"X-Accel-Buffering", b"yes")
    assert [p for p in client([stream, said]) if p[0].lower() == b"x-accel-buffering"] == [said]
    assert (b"x-accel-buffering", b"no") not in client([(b"content-type", b"application/json")])


def test_the_engine_s_own_request_id_wins():
    assert client([(b"X-Request-Id", b"theirs")]) == [(b"X-Request-Id", b"theirs")]


tokens = st.from_regex(rb"[a-zA-Z-]{1,12}", fullmatch=True)
names = st.one_of(st.sampled_from(sorted(HOP_BY_HOP)), tokens)


@given(st.lists(st.tuples(names, st.binary(max_size=8)), max_size=20), st.lists(tokens, max_size=3))
def test_no_hop_by_hop_header_survives(pairs, named):
    pairs = [*pairs, (b"Connection", b", ".join(named))]
    kept = end_to_end(pairs)
    gone = HOP_BY_HOP | {name.lower() for name in named}
    assert not any(name.lower() in gone for name, _ in kept)
    assert [p for p in pairs if p in kept] == kept


def test_the_clients_keys_go_through_unless_the_gate_has_its_own():
    keys = [(b"Authorization", b"Bearer c"), (b"X-Api-Key", b"c"), (b"authorization", b"Bearer d")]
    pairs = [(b"host", b"gate"), *keys, (b"a", b"1")]
    assert [pair for pair in lane(pairs) if pair in keys] == keys
    for authorization, added in (
        (b"", []),
        (b"Bearer e", [(b"authorization", b"Bearer e")]),
    ):
        for connection in (b"close", b"a, authorization"):
            sent = to_lane(
                [*pairs, (b"connection", connection)],
                method=b"GET",
                authority=b"lane:1",
                request_id=b"id-1",
                chunked=False,
                authorization=authorization,
            )
            assert [pair for pair in sent if pair[0].lower() in CREDENTIALS] == added


def test_a_preflight_never_carries_the_gates_key():
    sent = to_lane(
        [(b"Authorization", b"Bearer c")],
        method=b"OPTIONS",
        authority=b"lane:1",
        request_id=b"id-1",
        chunked=False,
        authorization=b"Bearer e",
    )
    assert CREDENTIALS.isdisjoint(name.lower() for name, _ in sent)

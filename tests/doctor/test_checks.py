"""What each check says of documents that an engine may have given; no sockets."""

from typing import Any

import pytest

from specgate.bench.shipped import shipped
from specgate.core.lanes import Lane
from specgate.core.profile import loads
from specgate.doctor.facts import Accepted, Facts, KeepAlive, OwnRequest, Read, Severity, Timed
from specgate.doctor.judging import assigned, judge
from specgate.doctor.reading import Asked, facts_of
from specgate.doctor.report import Report
from tests.doctor.engines import Documents, llamacpp, model, sglang, vllm, without

HERE = frozenset({("127.0.0.1", 1)})
THERE = frozenset({("127.0.0.1", 2)})
LEVEL = 250


def facts(documents: Documents, label: str = "spec", **told: Any) -> Facts:
    """As if an engine had answered so, and its probes, its connection and its load were good."""
    meta = documents.get("/generate", {}).get("meta_info", {})
    steps = meta.get("spec_verify_ct")
    accepted = None
    if steps:
        accepted = Accepted(length=47 / steps, over=steps, where="POST /generate meta_info")
    page = documents.get("/metrics", "")
    good: dict[str, Any] = {
        "url": f"http://127.0.0.1/{label}",
        "addresses": HERE if label == "spec" else THERE,
        "documents": {p: each for p, each in documents.items() if not isinstance(each, int | str)},
        "metrics": page if isinstance(page, str) else "",
        "metrics_status": 200 if isinstance(page, str) else page,
        "ready": Timed(path="/ready", status=200, took_s=0.004),
        "health": Timed(path="/health", status=200, took_s=0.004),
        "keep_alive": KeepAlive(watched_s=6.5, closed_after_s=5.0),
        "in_flight": (Read(0, "/v1/loads"),),
        "request": OwnRequest(tokens=48, took_s=0.2, accepted=accepted, tells=bool(meta)),
    }
    return facts_of(Asked(label=label, **(good | told)))


def of_one(documents: Documents, lane: Lane | None = Lane.SPEC, level: int = LEVEL, **told: Any):
    return judge([(facts(documents, **told), lane)], None, level)


def of_two(spec: Documents, plain: Documents, profile=None, **told: Any) -> Report:
    engines = [(facts(spec, "spec", **told), Lane.SPEC), (facts(plain, "plain"), Lane.PLAIN)]
    return judge(engines, profile, LEVEL)


def checks(report: Report) -> dict[str, Severity]:
    return {finding.check: finding.severity for finding in report.findings}


def finding(report: Report, check: str):
    (found,) = [each for each in report.findings if each.check == check]
    assert found.evidence
    assert found.change
    return found


def unknown(report: Report, words: str) -> str:
    (found,) = [each for each in report.not_known if words in each.what]
    return found.why


def test_a_pair_that_nothing_is_wrong_with_has_a_note_on_the_native_mode_alone():
    report = of_two(sglang(spec=True), sglang())
    assert checks(report) == {"adaptive-available": Severity.NOTE}
    assert not report.wrong
    assert [each.what for each in report.not_known] == ["its break-even accept length"]
    assert "at most 4 tokens" in unknown(report, "break-even")


LEFT_OUT: dict[str, Any] = {"launch_command": "x.py --model-path m", "max_running_requests": 48}
CAP_48 = {"effective_max_running_requests_per_dp": 48}


def test_the_cap_that_sglang_sets_by_itself_is_a_warning():
    found = finding(of_one(sglang(spec=True, state=CAP_48, **LEFT_OUT)), "running-cap-default")
    assert found.severity is Severity.WARNING
    assert any("48" in line for line in found.evidence)
    assert "launch_command has no --max-running-requests" in found.evidence
    assert "--max-running-requests to 250" in found.change


def test_a_cap_that_was_asked_for_is_a_note_unless_a_profile_goes_above():
    asked = sglang(spec=True, state=CAP_48)
    assert checks(of_one(asked))["running-cap"] is Severity.NOTE
    assert "running-cap" not in checks(of_one(asked, level=48))
    report = judge([(facts(asked), Lane.SPEC)], shipped("reference"), LEVEL)
    assert checks(report)["running-cap"] is Severity.WARNING
    assert "the profile's highest level: 250" in finding(report, "running-cap").evidence


def test_without_a_launch_command_the_48_may_have_been_asked_for():
    info = sglang(spec=True, state=CAP_48)
    del info["/server_info"]["launch_command"]
    assert "it does not tell who set it" in finding(of_one(info), "running-cap-default").evidence


def test_a_plain_lane_is_not_said_to_have_the_default_of_speculation():
    report = of_one(sglang(state=CAP_48, **LEFT_OUT), Lane.PLAIN)
    assert "running-cap-default" not in checks(report)


@pytest.mark.parametrize(
    ("info", "state"),
    [
        ({}, {"decode_cuda_graph_bs": [1, 2, 160]}),
        (
            {"cuda_graph_config": {"decode": {"backend": "full", "max_bs": 160}}},
            {"decode_cuda_graph_bs": None},
        ),
        ({"cuda_graph_max_bs": 160}, {"decode_cuda_graph_bs": None}),
    ],
)
def test_graphs_below_the_level(info, state):
    found = finding(of_one(sglang(spec=True, state=state, **info)), "graph-limit")
    assert any(line.endswith("160") for line in found.evidence)
    assert "to 250" in found.change
    capped = {**state, "effective_max_running_requests_per_dp": 128}
    assert "graph-limit" not in checks(of_one(sglang(spec=True, state=capped, **info)))


def test_graphs_that_are_off_matter_on_a_gpu_only():
    assert "no-graphs" in checks(of_one(sglang(spec=True, disable_cuda_graph=True)))
    assert "no-graphs" not in checks(
        of_one(sglang(spec=True, disable_cuda_graph=True, device="cpu"))
    )


@pytest.mark.parametrize("name", ["dtype", "quantization", "kv_cache_dtype", "tp_size"])
def test_lanes_that_differ_are_told_with_both_values(name):
    other: dict[str, Any] = {name: "other"}
    found = finding(of_two(sglang(spec=True), sglang(**other)), "settings-differ")
    assert found.severity is Severity.WARNING
    assert name in found.what
    assert found.evidence[1] == f"plain, /server_info {name}: other"


def test_another_context_another_model_another_engine_another_version():
    plain = sglang(version="0.5.9")
    plain["/v1/models"] = {"data": [model("sglang", "n") | {"max_model_len": 1000}]}
    report = of_two(sglang(spec=True), plain)
    assert checks(report)["models-differ"] is Severity.ERROR
    assert "context_length" in finding(report, "settings-differ").what
    assert "0.5.9" in finding(report, "versions-differ").evidence[1]
    assert "engines-differ" in checks(of_two(vllm(spec=True), sglang()))
    assert "caps-differ" in checks(of_two(sglang(spec=True, state=CAP_48), sglang()))


def test_an_attention_backend_may_differ_for_speculation():
    report = of_two(
        sglang(spec=True, attention_backend="fa3"), sglang(attention_backend="flashinfer")
    )
    assert checks(report)["settings-differ"] is Severity.NOTE


def test_lanes_that_are_the_wrong_way_round():
    report = of_two(sglang(), sglang(spec=True))
    assert checks(report)["spec-lane-plain"] is Severity.ERROR
    assert checks(report)["plain-lane-speculates"] is Severity.ERROR


def test_engines_without_names_are_told_apart_by_what_they_do():
    one, other = facts(sglang(), "engine 1"), facts(sglang(spec=True), "engine 2")
    assert [lane for _, lane in assigned([one, other])] == [Lane.PLAIN, Lane.SPEC]
    both = assigned([other, facts(sglang(spec=True), "engine 3", addresses=HERE)])
    assert [lane for _, lane in both] == [None, None]
    assert "both engines speculate" in finding(judge(both, None, LEVEL), "same-side").what


def test_one_engine_under_two_addresses():
    took: dict[str, Any] = {
        "startup_time": {"load_weight": 12.345678},
        "random_seed": 5,
        "port": 30000,
    }
    report = of_two(sglang(spec=True, **took), sglang(spec=True, **took))
    assert "startup_time" in finding(report, "same-engine").evidence[2]
    one = facts(sglang(), "engine 1", url="http://127.0.0.1:1", addresses=HERE)
    other = facts(sglang(), "engine 2", url="http://localhost:1", addresses=HERE)
    report = judge([(one, None), (other, None)], None, LEVEL)
    assert "same-engine" in checks(report)
    assert "same-side" not in checks(report)


def verified(documents: Documents, steps: int | None) -> Documents:
    meta = documents["/generate"]["meta_info"]
    meta["spec_verify_ct"] = steps
    return documents


def test_an_accept_length_of_one_on_text_that_repeats():
    found = finding(of_one(verified(sglang(spec=True), 47)), "accept-length")
    assert found.severity is Severity.WARNING
    assert "1.00 on text that repeats" in found.what
    assert "POST /generate meta_info: 1.00 over 47 steps" in found.evidence


def test_an_accept_length_near_one_since_the_start():
    poor = sglang(spec=True, state={"avg_spec_accept_length": 1.04})
    assert "since its start is 1.04" in finding(of_one(poor), "accept-length").what
    assert "over 400 steps" in finding(of_one(poor), "accept-length").evidence[0]


@pytest.mark.parametrize("average", [0, 0.0, None])
def test_nothing_verified_is_no_accept_length_of_nothing(average):
    report = of_one(
        sglang(spec=True, state={"avg_spec_accept_length": average}),
        request=None,
        request_failed="POST /generate answered 500",
    )
    assert "accept-length" not in checks(report)
    assert unknown(report, "the accept length") == "POST /generate answered 500"


def test_a_drafter_that_never_drafts():
    documents = verified(sglang(spec=True, state={"avg_spec_accept_length": None}), None)
    assert "48 tokens" in finding(of_one(documents), "nothing-verified").what


ASKED = {"launch_command": "x --speculative-adaptive --max-running-requests 256"}


@pytest.mark.parametrize(
    ("info", "because"),
    [
        ({"speculative_eagle_topk": 4}, "speculative_eagle_topk=4 (1 only)"),
        ({"speculative_algorithm": "NGRAM"}, "speculative_algorithm=NGRAM"),
        ({"attn_dp_size": 8}, "attn_dp_size=8"),
        ({"enable_dp_attention": True}, "enable_dp_attention=true"),
        ({"enable_two_batch_overlap": True}, "enable_two_batch_overlap=true"),
        ({}, "for a reason that it does not tell"),
    ],
)
def test_an_adaptive_mode_that_was_asked_for_and_is_static(info, because):
    found = finding(of_one(sglang(spec=True, **ASKED, **info)), "adaptive-static")
    assert found.severity is Severity.WARNING
    assert because in found.what
    assert "/server_info speculative_adaptive: false" in found.evidence


def test_an_adaptive_mode_that_is_on_or_cannot_be():
    on = checks(of_one(sglang(spec=True, speculative_adaptive=True)))
    assert on["adaptive-on"] is Severity.NOTE
    assert not [c for c in checks(of_one(sglang(spec=True, attn_dp_size=8))) if "adaptive" in c]
    tree = finding(of_one(sglang(spec=True, speculative_eagle_topk=4)), "adaptive-available")
    assert "topk 1" in tree.change
    assert not [c for c in checks(of_one(sglang(), Lane.PLAIN)) if "adaptive" in c]


def test_vllm_s_table_is_known_in_its_development_mode_only():
    report = of_one(vllm(spec=True))
    assert "VLLM_SERVER_DEV_MODE" in unknown(report, "num_speculative_tokens_per_batch_size")
    told = vllm(spec=True)
    table = {"method": "eagle3", "num_speculative_tokens_per_batch_size": [[1, 8, 3]]}
    told["/server_info"] = {"vllm_config": {"speculative_config": table}}
    assert "adaptive-on" in checks(of_one(told))
    several = vllm(spec=True, engines=2) | {"/server_info": told["/server_info"]}
    assert "data parallelism" in finding(of_one(several), "adaptive-static").what


def test_vllm_says_in_its_metrics_whether_it_speculates():
    seen = facts(vllm(spec=True))
    assert seen.speculation.on is not None
    assert seen.speculation.on.value is True
    assert seen.speculation.steps is not None
    assert seen.speculation.steps.value == 3
    assert seen.accepted is not None
    assert seen.accepted.length == pytest.approx(900 / 300)
    assert "plain-lane-speculates" in checks(of_one(vllm(spec=True), Lane.PLAIN))
    assert "spec-lane-plain" in checks(of_one(vllm()))
    silent = of_one(without(vllm(spec=True), "/metrics"), metrics_status=404)
    assert "only /metrics tells" in unknown(silent, "whether it speculates")


def test_metrics_that_are_off_or_locked():
    off = of_one(sglang() | {"/metrics": 404}, Lane.PLAIN)
    assert "--enable-metrics" in finding(off, "metrics-off").change
    assert (
        "--disable-log-stats"
        in finding(of_one(vllm() | {"/metrics": "x 1\n"}), "metrics-off").change
    )
    assert "metrics-key" in checks(of_one(llamacpp() | {"/metrics": 401}, Lane.PLAIN))


def test_probes():
    slow = of_one(sglang(), Lane.PLAIN, health=Timed(path="/health", status=200, took_s=1.004))
    found = finding(slow, "health-slow")
    assert found.severity is Severity.NOTE
    assert "generates a token" in found.what
    assert "the gate asks /ready" in found.what
    down = of_one(sglang(), Lane.PLAIN, ready=Timed(path="/ready", status=503, took_s=0.004))
    assert checks(down)["not-ready"] is Severity.ERROR
    late = of_one(sglang(), Lane.PLAIN, ready=Timed(path="/ready", status=200, took_s=2.0))
    assert "probe-slow" in checks(late)
    mute = of_one(sglang(), Lane.PLAIN, ready=Timed(path="/ready", status=None, took_s=5.0))
    assert "probe-silent" in checks(mute)


@pytest.mark.parametrize(("after", "said"), [(2.0, "after 2.0 s"), (0.0, "keeps no connection")])
def test_a_keep_alive_that_is_shorter_than_ours(after, said):
    rested = KeepAlive(watched_s=6.5, closed_after_s=after)
    found = finding(of_one(sglang(), Lane.PLAIN, keep_alive=rested), "keep-alive")
    assert said in found.what
    assert "SGLANG_TIMEOUT_KEEP_ALIVE" in found.change


def test_a_keep_alive_that_was_not_measured_is_not_known():
    assert "not measured" in unknown(of_one(sglang(), keep_alive=None), "idle connections")


def test_others_that_use_it_are_a_note():
    found = finding(of_one(sglang(), Lane.PLAIN, in_flight=(Read(3, "/v1/loads"),)), "busy")
    assert found.severity is Severity.NOTE
    assert found.evidence == ("/v1/loads, before our own request: 3",)


def test_memory_that_both_lanes_may_take():
    greedy: dict[str, Any] = {"mem_fraction_static": 0.88, "base_gpu_id": 0}
    report = of_two(sglang(spec=True, **greedy), sglang(**greedy))
    found = finding(report, "memory")
    assert "1.76" in found.what
    assert "spec, /server_info mem_fraction_static: 0.88" in found.evidence
    assert "CUDA_VISIBLE_DEVICES" in unknown(report, "share a GPU")
    elsewhere = of_two(
        sglang(spec=True, **greedy), sglang(**greedy), addresses=frozenset({("10.0.0.1", 1)})
    )
    assert "memory" not in checks(elsewhere)
    assert "addresses differ" in unknown(elsewhere, "holds both lanes")
    assert "memory" not in checks(of_two(sglang(spec=True), sglang()))
    assert (
        "1.80"
        in finding(
            of_two(vllm(spec=True, utilization="0.9"), vllm(utilization="0.9")), "memory"
        ).what
    )
    assert "not told" in unknown(of_two(llamacpp(spec=True), llamacpp()), "holds both lanes")


def test_the_room_beside_one_engine():
    tight = {"memory_usage": {"weight": 40, "kvcache": 30, "startup_available": 78, "graph": {}}}
    found = finding(of_one(sglang(state=tight), Lane.PLAIN), "room")
    assert "40.0 GB" in found.what
    assert "8.0 GB" in found.what
    assert "room" not in checks(of_one(sglang(), Lane.PLAIN))


PROFILE = """{"schema": "specgate-profile/1",
 "verdict": {"shape": "crosses", "arm": "spec", "crossover": 12.0},
 "fingerprint": {"model": "m", "engines": {"spec": {"steps": 3}}},
 "levels": [
  {"concurrency": 1, "arms": {"plain": {"tok_s": 100},
    "spec": {"tok_s": 150, "accept_length": 2.4, "break_even_accept_length": 1.6}}},
  {"concurrency": 30, "arms": {"plain": {"tok_s": 900},
    "spec": {"tok_s": 400, "accept_length": 2.4, "break_even_accept_length": 5.4}}}]}"""


def test_break_even_above_what_a_step_can_yield():
    report = of_two(sglang(spec=True), sglang(), loads(PROFILE))
    found = finding(report, "break-even")
    assert found.severity is Severity.WARNING
    assert "at 30 in flight" in found.what
    assert "break-even accept length: 1.60 at 1, 5.40 at 30" in found.evidence
    assert not [each for each in report.not_known if "break-even" in each.what]
    assert "break-even" not in checks(
        of_two(sglang(spec=True), sglang(), loads(PROFILE.replace("5.4}", "3.9}")))
    )


def test_a_profile_of_something_else():
    report = of_two(
        sglang(spec=True, speculative_num_steps=5), sglang(), loads(PROFILE.replace('"m"', '"n"'))
    )
    assert "profile-model" in checks(report)
    assert "profile-steps" in checks(report)


@pytest.mark.parametrize("engine", [sglang, vllm, llamacpp])
def test_documents_of_another_kind_are_not_known_and_no_error(engine):
    asked = [path for path, each in engine(spec=True).items() if isinstance(each, dict | list)]
    for path in set(asked) - {"/v1/models", "/generate"}:
        for nonsense in ([], {}, [1], "x", {"internal_states": "x", "vllm_config": []}):
            assert of_one(engine(spec=True) | {path: nonsense}).not_known


def test_the_key_in_a_launch_command_stays_out():
    greedy = sglang(spec=True, state=CAP_48, launch_command="x --api-key sk-hush --seed=7")
    seen = facts(greedy)
    assert seen.launch == frozenset({"--api-key", "--seed"})
    assert "sk-hush" not in repr(seen)

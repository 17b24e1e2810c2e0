"""Checks of one engine: facts in, findings out. Each function is one check, and a fact that is not
there makes it say so.
"""

from specgate.control.prober import PROBE_TIMEOUT_S
from specgate.core.lanes import Lane
from specgate.doctor.facts import Aim, Facts, Severity
from specgate.doctor.replicas import HIDDEN, check_replicas
from specgate.doctor.report import Report
from specgate.doctor.sglang import CAP_FLAG, DEFAULT_CAP
from specgate.doctor.speculating import DEV_MODE, check_speculation
from specgate.engines.base import Engine
from specgate.upstream.pool import IDLE_S

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR

SLOW_HEALTH_S = 0.5
"""Probes of orchestrators commonly wait 1 s."""

SLOW_READY_S = 1.0
_CAP_FLAGS = {
    Engine.SGLANG: CAP_FLAG,
    Engine.VLLM: "--max-num-seqs",
    Engine.LLAMACPP: "--parallel",
}
_METRICS_FLAGS = {
    Engine.SGLANG: "start it with --enable-metrics",
    Engine.VLLM: "start it without --disable-log-stats",
    Engine.LLAMACPP: "start it with --metrics",
}
_KEEP_ALIVE = {
    Engine.SGLANG: "set SGLANG_TIMEOUT_KEEP_ALIVE",
    Engine.VLLM: "set VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
}


def check_engine(
    facts: Facts, role: Lane | None, aim: Aim, report: Report, *, sleeps: bool = False
) -> None:
    """All of them, in the order in which they are printed within a severity. sleeps: it is the lane
    whose turn it is not, and need not be ready."""
    if facts.engine is Engine.UNKNOWN and facts.replicas is None:
        report.unknown(
            facts, "which engine this is", "/v1/models names none of sglang, vllm, llamacpp"
        )
    check_replicas(facts, report)
    _role(facts, role, report)
    _cap(facts, aim, report)
    _graphs(facts, aim, report)
    check_speculation(facts, report)
    _metrics(facts, report)
    _probes(facts, report, sleeps=sleeps)
    _keep_alive(facts, report)
    _busy(facts, report)


def _role(facts: Facts, role: Lane | None, report: Report) -> None:
    on = facts.speculation.on
    if on is None:
        why = {
            Engine.VLLM: "only /metrics tells, and it is not there",
            Engine.LLAMACPP: "neither /slots nor /metrics tells",
        }
        said = why.get(facts.engine, "it does not say so anywhere")
        if facts.replicas is not None:
            said = f"{facts.metrics_path} counts no verified draft"
        report.unknown(facts, "whether it speculates", said)
    elif role is Lane.SPEC and not on.value:
        report.find(
            ERROR,
            "spec-lane-plain",
            facts,
            "this engine does not speculate, and was given as the lane that does",
            [on],
            "give the address of the engine that speculates, or start this one with a drafter",
        )
    elif role is Lane.PLAIN and on.value:
        report.find(
            ERROR,
            "plain-lane-speculates",
            facts,
            "this engine speculates, and was given as the plain lane",
            [on],
            "give the address of the plain engine, or start this one without a drafter",
        )


def _cap(facts: Facts, aim: Aim, report: Report) -> None:
    cap = facts.cap
    if cap is None:
        report.unknown(facts, "how many requests it runs at once", _untold(facts))
        return
    if cap.value >= aim.level:
        return
    flag = _CAP_FLAGS.get(facts.engine, "its limit")
    evidence = [str(cap), f"{aim.where}: {aim.level:g}"]
    change = f"set {flag} to {aim.level:g} or more, in both lanes; or leave out higher levels"
    spec = facts.engine is Engine.SGLANG and facts.speculation.algorithm is not None
    asked = None if facts.launch is None else CAP_FLAG in facts.launch
    if spec and cap.value == DEFAULT_CAP and not asked:
        told = f"launch_command has no {CAP_FLAG}"
        evidence.append(told if asked is False else "it does not tell who set it")
        report.find(
            WARNING,
            "running-cap-default",
            facts,
            f"runs at most {DEFAULT_CAP} requests at once, which is what SGLang sets with "
            "speculation where nobody asks: above that a measurement measures its queue",
            evidence,
            change,
        )
        return
    report.find(
        WARNING if aim.measured else NOTE,
        "running-cap",
        facts,
        f"runs at most {cap.value} requests at once: above that a measurement measures its queue",
        evidence,
        change,
    )


def _graphs(facts: Facts, aim: Aim, report: Report) -> None:
    if facts.device == "cpu" or facts.engine is Engine.LLAMACPP:
        return
    if facts.graphs_off is not None:
        report.find(
            WARNING,
            "no-graphs",
            facts,
            "decodes without CUDA graphs: each step pays for launching its kernels one by one",
            [facts.graphs_off],
            "leave graphs on, or keep them off in both lanes alike",
        )
        return
    limit = facts.graph_limit
    if limit is None:
        report.unknown(facts, "up to which batch it has CUDA graphs", _untold(facts))
        return
    top = min(aim.level, facts.cap.value) if facts.cap is not None else aim.level
    if limit.value < top:
        flag = (
            "--cuda-graph-max-bs"
            if facts.engine is Engine.SGLANG
            else "--max-cudagraph-capture-size"
        )
        if "cuda_graph_config" in limit.where or "decode" in limit.where:
            flag = "--cuda-graph-max-bs-decode"
        report.find(
            WARNING,
            "graph-limit",
            facts,
            f"has CUDA graphs for batches up to {limit.value}: larger ones run without, and the "
            "curve bends there for that reason",
            [limit, f"{aim.where}: {aim.level:g}", *([facts.cap] if facts.cap else [])],
            f"set {flag} to {top:g} in both lanes, if their memory allows",
        )


def _untold(facts: Facts) -> str:
    if facts.replicas is not None:
        return HIDDEN
    return DEV_MODE if facts.engine is Engine.VLLM else "it does not tell"


def _metrics(facts: Facts, report: Report) -> None:
    path, behind = facts.metrics_path, facts.replicas is not None
    if facts.metrics is None:
        report.unknown(facts, "whether it has metrics", f"{path} gave no answer in time")
    elif facts.metrics in (401, 403):
        report.find(
            WARNING,
            "metrics-key",
            facts,
            f"{path} asks for a key, and the gate reads it without one",
            [f"{path} answered {facts.metrics}"],
            f"open {path} to the gate's host, or do without specgate_engine_output_tokens_total",
        )
    elif facts.metrics != 200 or not (
        facts.counters or (facts.engine is Engine.UNKNOWN and not behind)
    ):
        found = "has no counters of tokens" if facts.metrics == 200 else f"answered {facts.metrics}"
        report.find(
            WARNING,
            "metrics-off",
            facts,
            "metrics are off: the gate cannot read its token counters, nor the bench what was "
            "accepted in each level",
            [f"{path} {found}"],
            "start its replicas with --enable-metrics"
            if behind
            else _METRICS_FLAGS.get(facts.engine, "turn its metrics on"),
        )


def _probes(facts: Facts, report: Report, *, sleeps: bool) -> None:
    ready, health = facts.ready, facts.health
    if ready is None:
        report.unknown(facts, "how fast it answers the gate's probe", "there was no time left")
        return
    if ready.status is None:
        report.find(
            WARNING,
            "probe-silent",
            facts,
            "the gate's probe gets no answer in time, so the gate cannot tell its health",
            [f"{ready.path} gave no answer in {ready.took_s:.1f} s"],
            "look at what keeps its HTTP side busy",
        )
        return
    asked = f"{ready.path}: {ready.status} after {_ms(ready.took_s)}"
    if ready.refuses:
        said = "it says that it is not ready: the gate would send it nothing"
        report.find(
            NOTE if sleeps else ERROR,
            "not-ready",
            facts,
            said + (", and wakes it when its turn comes" if sleeps else ""),
            [asked],
            "no change is needed if it sleeps; awake it tells more"
            if sleeps
            else "wait for it, or end its pause or drain",
        )
    elif ready.took_s > SLOW_READY_S:
        report.find(
            WARNING,
            "probe-slow",
            facts,
            f"the gate's probe takes {ready.took_s:.1f} s; it gives up after {PROBE_TIMEOUT_S:g} s",
            [asked],
            "look at what keeps its HTTP side busy",
        )
    if health is None or health.status == 404:
        return
    if health.status is None or health.took_s > SLOW_HEALTH_S:
        answer = "no answer" if health.status is None else str(health.status)
        generates = ", as it generates a token each time" if facts.engine is Engine.SGLANG else ""
        report.find(
            NOTE,
            "health-slow",
            facts,
            f"/health takes {health.took_s:.1f} s{generates}; the gate asks {ready.path} instead",
            [f"/health: {answer} after {_ms(health.took_s)}", asked],
            f"let other probes ask {ready.path} too, or wait for more than a second",
        )


def _keep_alive(facts: Facts, report: Report) -> None:
    rested = facts.keep_alive
    if rested is None:
        report.unknown(
            facts,
            "how long it keeps idle connections",
            "not measured: no connection could be watched",
        )
    elif rested.closed_after_s is not None and rested.closed_after_s <= IDLE_S:
        after = rested.closed_after_s
        what = (
            f"closes idle connections after {after:.1f} s" if after else "keeps no connection open"
        )
        report.find(
            WARNING,
            "keep-alive",
            facts,
            f"{what}, and the gate's pool uses them again for {IDLE_S:g} s: a request can meet a "
            "connection that is just being closed, and is then sent once more on a new one"
            if after
            else f"{what}: each request pays for a new one",
            [f"an idle connection, watched: closed after {after:.1f} s"],
            f"{_KEEP_ALIVE.get(facts.engine, 'set its keep-alive time')} to 5 s or more; a proxy "
            "in between may also be what closes",
        )


def _busy(facts: Facts, report: Report) -> None:
    if not facts.in_flight:
        report.unknown(facts, "whether others use it now", "it tells no number of requests")
    elif any(count.value for count in facts.in_flight):
        counts = ", ".join(str(count.value) for count in facts.in_flight)
        report.find(
            NOTE,
            "busy",
            facts,
            "others use it now: a measurement would measure them too",
            [f"{facts.in_flight[0].where}, before our own request: {counts}"],
            "keep other traffic away while you measure; for a running gate it is as it should be",
        )


def _ms(took_s: float) -> str:
    return f"{1e3 * took_s:.0f} ms" if took_s < 1 else f"{took_s:.2f} s"

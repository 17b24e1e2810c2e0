"""Checks of two engines against each other: would a comparison of them be fair, can they be up
together? Facts in, findings out.
"""

from urllib.parse import urlsplit

from specgate.doctor.facts import Facts, Severity
from specgate.doctor.report import Report
from specgate.engines.base import Engine

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
BOTH = "lanes"

UNFAIR = (
    *("context_length", "dtype", "quantization", "kv_cache_dtype", "parameters"),
    *("tp_size", "pp_size", "dp_size", "ep_size", "disable_radix_cache"),
)
"""Settings whose difference is in the curves, and is no speculation."""

EXPECTED = ("attention_backend", "chunked_prefill_size")
"""Settings that an engine may choose differently because of speculation."""

KV_SHARE = 0.2
"""Lanes whose KV room differs by more than this share of the larger one."""


def check_lanes(first: Facts, second: Facts, report: Report, *, in_turns: bool = False) -> None:
    """All of them. in_turns: only one is up at a time, and may have all of the memory."""
    if _same(first, second, report):
        return
    _sides(first, second, report)
    _model(first, second, report)
    _settings(first, second, report)
    _caps(first, second, report)
    _kv(first, second, report)
    if not in_turns:
        _memory(first, second, report)


def _same(first: Facts, second: Facts, report: Report) -> bool:
    common = first.addresses & second.addresses
    paths = [urlsplit(each.url).path.rstrip("/") for each in (first, second)]
    process = first.process is not None and first.process == second.process
    if not process and not (common and paths[0] == paths[1]):
        return False
    if process:
        evidence = "/server_info startup_time, random_seed and port are the same in both"
    else:
        host, port = min(common)
        evidence = f"both addresses lead to {host} port {port}"
    report.find(
        ERROR,
        "same-engine",
        BOTH,
        "both addresses are one engine",
        [f"{first.url}", f"{second.url}", evidence],
        "give each lane an engine of its own",
    )
    return True


def _sides(first: Facts, second: Facts, report: Report) -> None:
    """Only where nobody said which lane is which: else each engine is checked against its role."""
    sides = [each.speculation.on for each in (first, second)]
    if first.label in ("spec", "plain") or None in sides:
        return
    on = [side.value for side in sides if side is not None]
    if on[0] == on[1]:
        report.find(
            ERROR,
            "same-side",
            BOTH,
            "both engines speculate" if on[0] else "neither engine speculates",
            [f"{each.label}, {each.speculation.on}" for each in (first, second)],
            "start one of them without a drafter" if on[0] else "start one of them with a drafter",
        )


def _model(first: Facts, second: Facts, report: Report) -> None:
    if first.engine is not second.engine:
        report.find(
            WARNING,
            "engines-differ",
            BOTH,
            "the lanes run different engines: a comparison measures those, and not speculation",
            [f"{each.label}: {each.engine}" for each in (first, second)],
            "run the same engine in both lanes",
        )
    elif first.version != second.version:
        report.find(
            WARNING,
            "versions-differ",
            BOTH,
            "the lanes run different versions of their engine",
            [f"{each.label}: {each.version or 'not told'}" for each in (first, second)],
            "run the same version in both lanes",
        )
    if first.model is None or second.model is None:
        report.unknown(BOTH, "whether both serve the same model", "/v1/models lists none")
    elif first.model != second.model:
        report.find(
            ERROR,
            "models-differ",
            BOTH,
            "the lanes serve under different names: a request that names one model fails in the "
            "other lane, or meets another model there",
            [f"{each.label}: /v1/models {each.model}" for each in (first, second)],
            "serve one model under one name in both (--served-model-name, or --alias)",
        )


def _settings(first: Facts, second: Facts, report: Report) -> None:
    silent = []
    for name in (*UNFAIR, *EXPECTED):
        one, other = first.settings.get(name), second.settings.get(name)
        if one is None or other is None:
            if name in UNFAIR[:6] and name != "parameters":
                silent.append(name)
            continue
        if one.value == other.value:
            continue
        fair = name in EXPECTED
        report.find(
            NOTE if fair else WARNING,
            "settings-differ",
            BOTH,
            f"the lanes differ in {name}"
            + ("" if fair else ": a comparison measures that too, and not speculation alone"),
            [f"{first.label}, {one}", f"{second.label}, {other}"],
            f"set {name} alike" + (", unless speculation asks for the other" if fair else ""),
        )
    if silent:
        report.unknown(
            BOTH, f"whether they agree in {', '.join(silent)}", "not told by both engines"
        )


def _caps(first: Facts, second: Facts, report: Report) -> None:
    if first.cap is None or second.cap is None or first.cap.value == second.cap.value:
        return
    low = min(first.cap.value, second.cap.value)
    report.find(
        WARNING,
        "caps-differ",
        BOTH,
        f"the lanes run different numbers of requests at once: above {low} in flight one of them "
        "queues while the other works",
        [f"{first.label}, {first.cap}", f"{second.label}, {second.cap}"],
        "set the same limit in both, and one that reaches your highest level",
    )


def _memory(first: Facts, second: Facts, report: Report) -> None:
    what = "whether the memory of their GPUs holds both lanes after a restart"
    hosts = [{host for host, _ in each.addresses} for each in (first, second)]
    if not hosts[0] & hosts[1]:
        report.unknown(BOTH, what, "their addresses differ, and neither tells its machine")
        return
    fractions = [each.memory.fraction for each in (first, second)]
    if fractions[0] is None or fractions[1] is None:
        report.unknown(BOTH, what, "not told which share of memory each may take")
        return
    total = fractions[0].value + fractions[1].value
    gpus = [each.memory.gpus for each in (first, second)]
    if gpus[0] is not None and gpus[1] is not None and not gpus[0] & gpus[1]:
        return
    if total <= 1:
        return
    _overlap(first, second, total, report)


def _overlap(first: Facts, second: Facts, total: float, report: Report) -> None:
    """The shares sum to more than one; whether they are of the same memory is not told."""
    rule = {
        Engine.SGLANG: "a share of what was free when it started: after a restart in another order "
        "one of them may get too little to start",
        Engine.VLLM: "a share of the whole: both do not fit on one GPU",
    }.get(first.engine, "a share of the whole")
    both = (first, second)
    numbers = [
        f"{each.label}: GPU {', '.join(map(str, sorted(each.memory.gpus)))} as it numbers them"
        for each in both
        if each.memory.gpus is not None and each.device != "cpu"
    ]
    shares = [f"{each.label}, {each.memory.fraction}" for each in both]
    cpu = first.device == second.device == "cpu"
    where = "of this machine's memory" if cpu else "of a GPU, if they are on the same one"
    report.find(
        WARNING,
        "memory",
        BOTH,
        f"the lanes may take {total:.2f} together {where}: each is {rule}",
        [*shares, *numbers],
        "start one after the other, and choose shares whose sum stays below 1"
        + ("" if cpu else "; with GPUs of their own (CUDA_VISIBLE_DEVICES) nothing is wrong"),
    )
    if not cpu:
        report.unknown(
            BOTH, "whether the lanes share a GPU", "no engine tells its CUDA_VISIBLE_DEVICES"
        )


def _kv(first: Facts, second: Facts, report: Report) -> None:
    one, other = first.memory.kv_tokens, second.memory.kv_tokens
    if one is None or other is None:
        return
    low, high = sorted((one.value, other.value))
    if high and (high - low) / high > KV_SHARE:
        report.find(
            NOTE,
            "kv-room",
            BOTH,
            f"the lanes have room for {low} and {high} tokens of context: at high load the smaller "
            "one queues first",
            [f"{first.label}, {one}", f"{second.label}, {other}"],
            "no change is needed if that is the split you will serve with",
        )

"""Checks of one engine's speculation: does it yield anything, and can the engine adapt it?"""

from specgate.doctor.facts import Facts, Read, Severity
from specgate.doctor.report import Report
from specgate.doctor.sglang import ADAPTIVE_FLAG
from specgate.engines.base import Engine

NOTE, WARNING = Severity.NOTE, Severity.WARNING

NEAR_ONE = 1.1
ENOUGH_STEPS = 16
"""Steps of one request, after which its accept length tells of the drafter."""

DEV_MODE = "vLLM tells it only where VLLM_SERVER_DEV_MODE=1 is set"


def check_speculation(facts: Facts, report: Report) -> None:
    """Nothing of an engine that does not speculate, or does not tell."""
    on = facts.speculation.on
    if on is None or not on.value:
        return
    _accept_length(facts, on, report)
    if facts.engine in (Engine.SGLANG, Engine.VLLM):
        _adaptive(facts, report)


def _accept_length(facts: Facts, on: Read, report: Report) -> None:
    own = facts.request.accepted if facts.request is not None else None
    seen = [each for each in (facts.accepted, own) if each is not None]
    evidence = [
        f"{each.where}: {each.length:.2f}" + (f" over {each.over} steps" if each.over else "")
        for each in seen
    ]
    if facts.request is not None and own is None and facts.request.tells:
        report.find(
            WARNING,
            "nothing-verified",
            facts,
            f"speculation is on, and not one draft was verified in {facts.request.tokens} tokens "
            "of text that repeats",
            [on, *evidence],
            "look into its log for the drafter; drafting may be off at this batch size",
        )
        return
    if not seen:
        what = "the accept length"
        report.unknown(facts, what, facts.request_failed or "nothing was verified since its start")
        return
    easy = own if own is not None and (own.over or 0) >= ENOUGH_STEPS else None
    if easy is not None and easy.length <= NEAR_ONE:
        report.find(
            WARNING,
            "accept-length",
            facts,
            f"the accept length is {easy.length:.2f} on text that repeats, which any drafter that "
            "works guesses: speculation costs and yields nothing",
            evidence,
            "check that the drafter is the one for this model, and that its weights are loaded "
            "(after releasing memory they may not be: sglang#31674)",
        )
    elif facts.accepted is not None and facts.accepted.length <= NEAR_ONE:
        report.find(
            WARNING,
            "accept-length",
            facts,
            f"the accept length since its start is {facts.accepted.length:.2f}: on the prompts it "
            "had, speculation yields nearly nothing",
            evidence,
            "measure with prompts like yours; a drafter trained for them may do better",
        )


def _adaptive(facts: Facts, report: Report) -> None:
    spec = facts.speculation
    sglang = facts.engine is Engine.SGLANG
    name = ADAPTIVE_FLAG if sglang else "num_speculative_tokens_per_batch_size"
    static = spec.adaptive is not None and not spec.adaptive.value
    if spec.adaptive_asked and (static or spec.adaptive_bars):
        because = ", ".join(spec.adaptive_bars)
        told: list[Read | str] = [*([spec.adaptive] if spec.adaptive else []), *spec.adaptive_bars]
        if sglang and facts.launch is not None and ADAPTIVE_FLAG in facts.launch:
            told.append(f"launch_command has {ADAPTIVE_FLAG}")
        report.find(
            WARNING,
            "adaptive-static",
            facts,
            f"{name} was asked for, and speculation is static all the same"
            + (f": {because} rules it out" if because else ", for a reason that it does not tell"),
            told,
            "remove what rules it out, or the flag; its log says `speculative_adaptive disabled`"
            if sglang
            else "run without data parallelism, or without the table",
        )
    elif spec.adaptive is not None and spec.adaptive.value:
        report.find(
            NOTE,
            "adaptive-on",
            facts,
            "the engine changes its draft length by load itself: a gate may not be needed",
            [spec.adaptive],
            "measure it as an arm of its own: --arm native=URL, against --arm plain=URL",
        )
    elif static and not spec.adaptive_bars:
        assert spec.adaptive is not None
        report.find(
            NOTE,
            "adaptive-available",
            facts,
            "the engine can turn speculation down by load itself, with one copy of the weights",
            [spec.adaptive, "nothing that it tells rules it out"],
            f"try {name} first, and measure it as --arm native=URL",
        )
    elif static and spec.adaptive_bars == (f"speculative_eagle_topk={spec.topk} (1 only)",):
        assert spec.adaptive is not None
        report.find(
            NOTE,
            "adaptive-available",
            facts,
            "the engine can turn speculation down by load itself, but not with topk above 1",
            [spec.adaptive, f"speculative_eagle_topk={spec.topk}"],
            f"measure {name} with --speculative-eagle-topk 1 as --arm native=URL",
        )
    elif spec.adaptive is None:
        why = "/server_info has no speculative_adaptive" if sglang else DEV_MODE
        if spec.adaptive_bars:
            why += f"; {', '.join(spec.adaptive_bars)} would rule it out"
        report.unknown(facts, f"whether it changes its draft length by load ({name})", why)

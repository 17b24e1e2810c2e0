"""What `specgate doctor` prints: the engines in a few lines each, findings, what is not known."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from specgate.core.lanes import Lane
from specgate.core.record import written
from specgate.doctor.facts import Facts, Finding, NotKnown, Severity, Timed
from specgate.doctor.report import Report

WIDTH = 100
SCHEMA = "specgate-doctor/1"


def page(engines: Sequence[Facts], report: Report) -> str:
    """The whole page, with a line's end."""
    lines: list[str] = []
    for facts in engines:
        lines += [*_engine(facts), ""]
    lines += [_count(report), ""]
    for finding in report.findings:
        lines += [*_finding(finding), ""]
    if report.not_known:
        lines.append("Not known:")
        lines += [line for each in report.not_known for line in _not_known(each)]
    return "\n".join(lines).rstrip() + "\n"


def as_json(
    engines: Sequence[tuple[Facts, Lane | None]], report: Report, failed: Sequence[str]
) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "schema": SCHEMA,
        "engines": [
            {
                "label": facts.label,
                "lane": None if role is None else role.value,
                "url": facts.url,
                "engine": str(facts.engine),
                "version": facts.version,
                "model": facts.model,
                "replicas": None if facts.replicas is None else written(facts.replicas),
                "speculates": None if facts.speculation.on is None else facts.speculation.on.value,
            }
            for facts, role in engines
        ],
        "failed": list(failed),
        "findings": written(report.findings),
        "not_known": written(report.not_known),
    }


def _engine(facts: Facts) -> Iterator[str]:
    version = f" {facts.version}" if facts.version else ""
    model = facts.model or "not told"
    yield f"{facts.label:<8} {facts.url}  {_what(facts)}{version}, model {model}"
    for told in (_speculation(facts), _limits(facts), _answers(facts)):
        if told:
            yield from _wrapped(", ".join(told), " " * 9)


def _what(facts: Facts) -> str:
    behind = facts.replicas
    if behind is None:
        return str(facts.engine)
    ready, total = (n if n is not None else "?" for n in (behind.ready, behind.total))
    return f"sglang-router, {ready} of {total} replicas ready"


def _speculation(facts: Facts) -> list[str]:
    spec = facts.speculation
    if spec.on is None:
        return ["whether it speculates is not known"]
    if not spec.on.value:
        return ["does not speculate"]
    told = [f"speculates{f' with {spec.algorithm}' if spec.algorithm else ''}"]
    if spec.steps is not None:
        told.append(f"at most {spec.steps.value} drafts a step")
    if facts.accepted is not None:
        told.append(f"accept length {facts.accepted.length:.2f} since its start")
    own = facts.request.accepted if facts.request is not None else None
    if own is not None:
        told.append(f"{own.length:.2f} on text that repeats")
    return told


def _limits(facts: Facts) -> list[str]:
    context = facts.settings.get("context_length")
    told = [f"at most {facts.cap.value} requests at once"] if facts.cap is not None else []
    return told + ([f"context {context.value}"] if context is not None else [])


def _answers(facts: Facts) -> list[str]:
    told = [_timed(each) for each in (facts.ready, facts.health) if each is not None]
    rested = facts.keep_alive
    if rested is not None:
        after = rested.closed_after_s
        told.append(
            f"an idle connection stays open for {rested.watched_s:g} s and more"
            if after is None
            else f"closes an idle connection after {after:.1f} s"
        )
    return told


def _timed(asked: Timed) -> str:
    took = f"{1e3 * asked.took_s:.0f} ms" if asked.took_s < 1 else f"{asked.took_s:.2f} s"
    if asked.status is None:
        return f"{asked.path} gave no answer in {took}"
    return f"{asked.path} {asked.status} in {took}"


def _count(report: Report) -> str:
    if not report.findings:
        return "Nothing wrong was found."
    counts = Counter(finding.severity for finding in report.findings)
    told = [
        f"{counts[severity]} {severity}{'s' if counts[severity] > 1 else ''}"
        for severity in Severity
        if counts[severity]
    ]
    return ", ".join(told) + ":"


def _finding(finding: Finding) -> Iterator[str]:
    yield from _wrapped(f"{finding.severity}: {finding.about}: {finding.what}", "  ", first="")
    for evidence in finding.evidence:
        yield from _wrapped(f"read    {evidence}", " " * 10, first="  ")
    yield from _wrapped(f"change  {finding.change}", " " * 10, first="  ")


def _not_known(each: NotKnown) -> Iterator[str]:
    yield from _wrapped(f"{each.about}: {each.what}: {each.why}", "    ", first="  ")


def _wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )

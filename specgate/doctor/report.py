"""What the checks say: findings and what is not known, gathered as they go; no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specgate.doctor.facts import Facts, Finding, NotKnown, Read, Severity


@dataclass(slots=True)
class Report:
    """`findings`: in the order of the checks until `settle` puts the worst first."""

    findings: list[Finding] = field(default_factory=list)
    not_known: list[NotKnown] = field(default_factory=list)

    def find(
        self,
        severity: Severity,
        check: str,
        about: Facts | str,
        what: str,
        evidence: Sequence[Read | str],
        change: str,
    ) -> None:
        finding = Finding(
            severity=severity,
            check=check,
            about=about.label if isinstance(about, Facts) else about,
            what=what,
            evidence=tuple(map(str, evidence)),
            change=change,
        )
        self.findings.append(finding)

    def unknown(self, about: Facts | str, what: str, why: str) -> None:
        label = about.label if isinstance(about, Facts) else about
        self.not_known.append(NotKnown(about=label, what=what, why=why))

    def settle(self) -> None:
        """The worst first; what holds for both engines in the same words is said once."""
        order = list(Severity)
        self.findings.sort(key=lambda finding: order.index(finding.severity))
        self.findings = _joined(self.findings)
        unknown: dict[tuple[str, str], list[str]] = {}
        for each in self.not_known:
            unknown.setdefault((each.what, each.why), []).append(each.about)
        self.not_known = [
            NotKnown(about=", ".join(about), what=what, why=why)
            for (what, why), about in unknown.items()
        ]

    @property
    def wrong(self) -> bool:
        """Whether there is more than notes."""
        return any(finding.severity is not Severity.NOTE for finding in self.findings)


def _joined(findings: Sequence[Finding]) -> list[Finding]:
    alike: dict[tuple[Severity, str, str, str], list[Finding]] = {}
    for each in findings:
        key = each.severity, each.check, each.what, each.change
        alike.setdefault(key, []).append(each)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            about=", ".join(each.about for each in same),
            evidence=_shared(same),
        )
        for same in alike.values()
    ]


def _shared(same: Sequence[Finding]) -> tuple[str, ...]:
    """The evidence of several, each line with its engine; what is the same for all, once."""
    common = [read for read in same[0].evidence if all(read in each.evidence for each in same)]
    own = [f"{f.about}, {read}" for f in same for read in f.evidence if read not in common]
    return (*own, *common)

"""Can an engine give its memory to the other lane and come back (SPECGATE_POOL=alternate)? SGLang
says 200 to the call in either case."""

from specgate.doctor.facts import Facts, Read, Severity
from specgate.doctor.report import Report
from specgate.engines.base import Engine

SAVER_FLAG = "--enable-memory-saver"
BACKUP_FLAG = "--enable-weights-cpu-backup"
DRAFT_FLAG = "--enable-draft-weights-cpu-backup"


def check_sleeping(facts: Facts, report: Report) -> None:
    """Of SGLang, and of what stands in front of engines; vLLM and llama.cpp do not tell."""
    if facts.replicas is not None:
        why = "a balancer answers in their place"
        report.unknown(facts, "whether its replicas give their memory back", why)
    if facts.engine is not Engine.SGLANG:
        return
    saver = facts.memory.saver
    if saver is None:
        report.unknown(facts, "whether it gives its memory back", "it tells no enable_memory_saver")
        return
    command = "or park it with a command of your own (SPECGATE_SPEC_PARK, SPECGATE_PLAIN_PARK)"
    if not saver.value:
        report.find(
            Severity.WARNING,
            "memory-saver",
            facts,
            "it cannot give its memory back: /release_memory_occupation answers 200 and frees "
            "nothing, so that the other lane would be woken where there is no room",
            [saver],
            f"start it with {SAVER_FLAG}, {command}",
        )
        return
    draft = bool(facts.speculation.on and facts.speculation.on.value)
    flags = {BACKUP_FLAG: facts.memory.backup} | ({DRAFT_FLAG: facts.memory.draft} if draft else {})
    lost: dict[str, Read] = {
        flag: kept for flag, kept in flags.items() if kept is not None and not kept.value
    }
    if lost:
        report.find(
            Severity.WARNING,
            "weights-backup",
            facts,
            f"it keeps no copy of its {'weights' if BACKUP_FLAG in lost else 'draft weights'} in "
            "main memory: what it gives back is lost, and it wakes without them",
            list(lost.values()),
            f"start it with {' '.join(lost)}, {command}",
        )

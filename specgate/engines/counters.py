"""What engines count, read from their /metrics: text in, numbers out.

A name that is not there is no number: never 0. Names: sglang 0.5.23 (--enable-metrics), vllm
0.33.0, llama.cpp's server (--metrics).
"""

import math
from collections.abc import Callable, Iterator

from specgate.engines.base import Engine

OUTPUT_TOKENS: dict[Engine, str] = {
    Engine.SGLANG: "sglang:generation_tokens_total",
    Engine.VLLM: "vllm:generation_tokens_total",
    Engine.LLAMACPP: "llamacpp:tokens_predicted_total",
}


def counted(
    text: str, name: str, is_other: Callable[[str], bool] = lambda _: False
) -> float | None:
    """The sum of a counter's samples over its labels in a Prometheus exposition, None for none.

    A sample that is no finite number at or above 0 makes the whole unknown. is_other: whether one,
    from its labels on, is left out.
    """
    total = None
    for sample in samples(text, name):
        if is_other(sample):
            continue
        value = sample.rpartition("}")[2].split()
        try:
            number = float(value[0])
        except (IndexError, ValueError):
            return None
        if not math.isfinite(number) or number < 0:
            return None
        total = (total or 0.0) + number
    return total if total is None or math.isfinite(total) else None


def samples(text: str, name: str) -> Iterator[str]:
    """What stands behind a name on each line that begins with it, labels first.

    The text is searched and not cut into lines: a page has thousands, this runs in the event loop,
    and a name or two is wanted of them.
    """
    at = 0 if text.startswith(name) else _next(text, name, 0)
    while at >= 0:
        at += len(name)
        end = text.find("\n", at)
        rest = text[at:] if end < 0 else text[at:end]
        if rest[:1] in ("{", " "):
            yield rest
        at = -1 if end < 0 else _next(text, name, end)


def _next(text: str, name: str, start: int) -> int:
    """Where the next line that begins with a name does; -1: there is none."""
    found = text.find("\n" + name, start)
    return found if found < 0 else found + 1

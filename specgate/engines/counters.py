"""What engines count, read from their /metrics: text in, numbers out.

A name that is not there is no number: never 0. Names: sglang 0.5.23 (--enable-metrics), vllm
0.33.0, llama.cpp's server (--metrics).
"""

import math

from specgate.engines.base import Engine

OUTPUT_TOKENS: dict[Engine, str] = {
    Engine.SGLANG: "sglang:generation_tokens_total",
    Engine.VLLM: "vllm:generation_tokens_total",
    Engine.LLAMACPP: "llamacpp:tokens_predicted_total",
}


def counted(text: str, name: str) -> float | None:
    """The sum of a counter's samples over its labels in a Prometheus exposition, None for none.

    Only lines that begin with the name are looked at: a page has thousands, and this runs in the
    event loop. A sample that is no finite number at or above 0 makes the whole unknown.
    """
    total = None
    for line in text.splitlines():
        if not line.startswith(name):
            continue
        rest = line[len(name) :]
        if rest[:1] not in ("{", " "):
            continue
        value = rest.rpartition("}")[2].split()
        try:
            number = float(value[0])
        except (IndexError, ValueError):
            return None
        if not math.isfinite(number) or number < 0:
            return None
        total = (total or 0.0) + number
    return total

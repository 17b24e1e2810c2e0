"""What the simulated lanes cost: named profiles, read from `params.json`.

A profile is either the fitted formula of the reference deployment (`reference`), or a published
table of both lanes' throughputs over concurrency. Both become the same thing: a step time for each
batch size, an accept length, a running cap and a KV budget. Units: seconds, tokens, tokens/s.

    load_profile("reference")     the profile
    profile_names()               every name that load_profile takes
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from specgate.core.lanes import Lane
from specgate.sim.accept import mean_accept_length, mean_p_for

REFERENCE = "reference"

# A table says nothing about prefill. We take the reference's 50 ms out of the measured time, but
# never more than this share of it, so that every step keeps a positive cost.
PREFILL_SHARE = 0.1


class UnknownProfileError(ValueError):
    """No such profile, or its source has no throughput over concurrency; lists those that do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The speculation: steps (K), topk, and draft tokens verified per sequence and step."""

    steps: int
    topk: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShape:
    """One lane's cost. `steps_s[b - 1]` is the seconds that one step of `b` sequences takes.

    `accept_length`: tokens over steps on mixed prompts, bonus included; 1 without a draft.
    `accept_p`: the mean probability per draft token that gives it. `cap`: most sequences in
    one batch. `kv_tokens`: sum of prompt and output tokens that may be reserved at once.
    A prompt of n tokens takes max(prefill_s, n / prefill_tok_s) seconds.
    """

    lane: Lane
    steps_s: tuple[float, ...]
    accept_length: float
    accept_p: float
    draft: Draft | None
    kv_tokens: int
    prefill_s: float
    prefill_tok_s: float

    @property
    def cap(self) -> int:
        return len(self.steps_s)

    @property
    def draft_steps(self) -> int:
        return self.draft.steps if self.draft else 0

    def step_s(self, batch: int) -> float:
        return self.steps_s[batch - 1]

    def prompt_s(self, prompt_tokens: int) -> float:
        return max(self.prefill_s, prompt_tokens / self.prefill_tok_s)

    def tok_s(self, concurrency: int, *, output_tokens: int = 512) -> float:
        """Output tokens/s of a closed loop with 128-token prompts, from the formula alone."""
        batch = min(concurrency, self.cap)
        per_token_s = self.step_s(batch) / (self.accept_length * batch)
        return output_tokens / (output_tokens * per_token_s + self.prefill_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Both lanes' shapes, and the measured curves they stand for.

    `concurrency` (ascending) and `measured[lane]` (tokens/s) are the published points; `shape` is
    what the source shows: never, crosses, always, inverted or multi.
    """

    id: str
    shape: str
    hardware: str
    source: str
    concurrency: tuple[int, ...]
    measured: Mapping[Lane, tuple[float, ...]]
    lanes: Mapping[Lane, LaneShape]

    def crossing(self) -> float:
        """Concurrency at which the spec lane's measured curve falls to the plain one's.

        Between two points ln(spec/plain) is taken as linear in log2 C. 0.0: the spec lane does not
        win at the lowest point (never, inverted and most multi shapes). inf: it wins at every
        point. Otherwise the first place where it stops to win.
        """
        ratio = [
            math.log(spec / plain)
            for spec, plain in zip(self.measured[Lane.SPEC], self.measured[Lane.PLAIN], strict=True)
        ]
        if ratio[0] <= 0:
            return 0.0
        for i in range(1, len(ratio)):
            if ratio[i] <= 0:
                low, high = math.log2(self.concurrency[i - 1]), math.log2(self.concurrency[i])
                return float(2 ** (low + (high - low) * ratio[i - 1] / (ratio[i - 1] - ratio[i])))
        return math.inf

    def with_lane(self, shape: LaneShape) -> "Profile":
        """The same profile with one lane's shape replaced: a starved KV pool, another cap."""
        return replace(self, lanes={**self.lanes, shape.lane: shape})


def profile_names() -> tuple[str, ...]:
    return tuple(row["id"] for row in _params()["reference_profiles"] if _is_table(row))


def load_profile(name: str) -> Profile:
    """Raises UnknownProfileError, whose message lists the names that would do."""
    params = _params()
    rows = {row["id"]: row for row in params["reference_profiles"]}
    row = rows.get(name)
    if row is None or not _is_table(row):
        why = "no such profile" if row is None else "its source has no tok/s over concurrency"
        raise UnknownProfileError(f"{name!r}: {why}; choose one of {', '.join(profile_names())}")
    measured = {lane: tuple(map(float, row[f"{lane.value}_tok_s"])) for lane in Lane}
    lanes = _from_formula(params) if name == REFERENCE else _from_table(params, row, measured)
    return Profile(
        id=name,
        shape=row["shape"],
        hardware=row["hardware"],
        source=row["source"],
        concurrency=tuple(row["concurrency"]),
        measured=measured,
        lanes=lanes,
    )


def _from_formula(params: Mapping[str, Any]) -> dict[Lane, LaneShape]:
    """t(B) = alpha + gamma (1 - (1 - active/routed)^(wB)) + beta w B: constant, experts, tokens."""
    miss = 1 - params["expert_share"]["active"] / params["expert_share"]["routed"]
    row = next(row for row in params["reference_profiles"] if row["id"] == REFERENCE)
    shapes = {}
    for lane in Lane:
        fit = params["formula"]["lanes"][lane.value]
        draft = Draft(**row["draft"]) if lane is Lane.SPEC else None
        accept_length = fit.get("accept_length", 1.0)
        shapes[lane] = LaneShape(
            lane=lane,
            steps_s=tuple(
                fit["alpha"] + fit["gamma"] * (1 - miss**tokens) + fit["beta"] * tokens
                for tokens in (fit["w"] * batch for batch in range(1, fit["cap"] + 1))
            ),
            accept_length=accept_length,
            accept_p=mean_p_for(accept_length, draft.steps) if draft else 0.0,
            draft=draft,
            kv_tokens=params["kv"]["tokens_per_lane"],
            prefill_s=params["prefill"]["seconds_per_request"],
            prefill_tok_s=params["prefill"]["tokens_per_s"],
        )
    return shapes


def _from_table(
    params: Mapping[str, Any],
    row: Mapping[str, Any],
    measured: Mapping[Lane, Sequence[float]],
) -> dict[Lane, LaneShape]:
    """t(B) = a (B / X(B) - B prefill / L), linear in B between the measured points.

    Below the first point a step costs as much as at it; the cap is the last point, so beyond it
    throughput is flat and requests queue.
    """
    output = params["workload"]["output_tokens"]
    fastest = max(x for curve in measured.values() for x in curve)
    prefill_s = min(params["prefill"]["seconds_per_request"], PREFILL_SHARE * output / fastest)
    prefill_tok_s = (
        params["prefill"]["tokens_per_s"] * params["prefill"]["seconds_per_request"] / prefill_s
    )
    points = row["concurrency"]
    shapes = {}
    for lane in Lane:
        draft = None
        accept_length = 1.0
        accept_p = 0.0
        if lane is Lane.SPEC:
            draft = Draft(**row.get("draft", params["acceptance"]["default_draft"]))
            accept_p = params["acceptance"]["mix"]
            if "accept_length" in row:
                accept_p = mean_p_for(row["accept_length"], draft.steps)
            accept_length = mean_accept_length(accept_p, draft.steps)
        at_points = [
            accept_length * (b / x - b * prefill_s / output)
            for b, x in zip(points, measured[lane], strict=True)
        ]
        shapes[lane] = LaneShape(
            lane=lane,
            steps_s=tuple(_linear(b, points, at_points) for b in range(1, points[-1] + 1)),
            accept_length=accept_length,
            accept_p=accept_p,
            draft=draft,
            kv_tokens=points[-1] * params["kv"]["tokens_per_slot"],
            prefill_s=prefill_s,
            prefill_tok_s=prefill_tok_s,
        )
    return shapes


def _linear(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Through the points, flat before the first and after the last."""
    if x <= xs[0]:
        return ys[0]
    for i in range(1, len(xs)):
        if x <= xs[i]:
            return ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[-1]


def _is_table(row: Mapping[str, Any]) -> bool:
    return {"spec_tok_s", "plain_tok_s"} <= row.keys() and isinstance(row.get("concurrency"), list)


def _params() -> dict[str, Any]:
    text = resources.files("specgate.sim").joinpath("params.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded

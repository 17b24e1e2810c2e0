"""docs/reference/profile.md, from `specgate.core.profile`: every record and field of the file."""

import dataclasses
import json
from string import Template
from typing import Any

from specgate.bench.shipped import names, shipped
from specgate.core import profile, shape
from specgate.core import threshold as thresholds
from specgate.core.record import hints_of, in_words
from tests.docs.markdown import code, prose, table, written_from

PAGE = Template("""\
$origin

# The profile

A profile is a JSON file that holds what was measured: both lanes' curves, and what they say.
`specgate bench` writes one, [`specgate profile import`](cli.md#specgate-profile-import) makes one
from results that you have, and [`SPECGATE_PROFILE`](settings.md#specgate_profile) gives one to the
gate. [How far to trust it](../explanation/trust.md).

`schema` is `"$schema"`. A later version may add fields, which an older reader passes
over; the number changes when a field's meaning does. `specgate.core.profile.schema()` is the file's
JSON Schema. A file that is wrong is refused with the field and what it must be:

```text
$refusal
```

The arm `plain` does not speculate; `native` is an engine that follows its own table, `gate` a
running specgate. Arms of any other name speculate, always and in one way: `spec`, unless there are
several.

## The smallest one

Everything that has a default may be left out:

```json
$smallest
```

## Fields

A field without a default must be there. At the top stand `schema` and the fields of Profile.

$records

## Shapes

$shapes

## Standings

$standings

## What a gate takes from it

$thresholds

## Profiles that are shipped

Each was measured once, or published without its spread, so their shapes are those of the points and
nothing has an interval.

$shipped
""")

SMALLEST = {
    "schema": profile.SCHEMA,
    "verdict": {"shape": "crosses", "crossover": 5.1},
    "levels": [
        {"concurrency": 1, "arms": {"spec": {"tok_s": 120.0}, "plain": {"tok_s": 90.0}}},
        {"concurrency": 16, "arms": {"spec": {"tok_s": 480.0}, "plain": {"tok_s": 700.0}}},
    ],
}
RECORDS = (
    profile.Profile,
    profile.Curve,
    profile.Verdict,
    profile.Level,
    profile.ArmLevel,
    profile.Run,
    profile.Times,
    profile.OpenLoop,
    profile.Rate,
    profile.ArmRate,
    profile.Fingerprint,
    profile.Engine,
)


def profile_page() -> str:
    about_shapes = (shape.__doc__ or "").split("\n\n")
    return PAGE.substitute(
        origin=written_from("specgate/core/profile.py"),
        schema=profile.SCHEMA,
        refusal=_refusal(),
        smallest=json.dumps(SMALLEST, indent=1),
        records="\n\n".join(_record(record) for record in RECORDS),
        shapes=table(("shape", "means"), [(f"`{s}`", text) for s, text in shape.MEANINGS.items()])
        + "\n\n"
        + prose("\n\n".join(about_shapes[3:])),
        standings=f"{about_shapes[1]}\n\n{about_shapes[2]}",
        thresholds=f"```text\n{_after_title(thresholds.__doc__)}\n```",
        shipped=table(("name", "shape", "threshold", "levels", "hardware"), map(_shipped, names())),
    )


def _record(kind: Any) -> str:
    own = [f.name for f in dataclasses.fields(kind)]
    if kind is profile.Profile:
        own = [name for name in own if name not in hints_of(profile.Curve)]
    defaults = {f.name: f for f in dataclasses.fields(kind)}
    rows = []
    for name, (of, says) in hints_of(kind).items():
        if name in own:
            bound = "" if says.above is None else f", above {says.above:g}"
            rows.append((f"`{name}`", in_words(of) + bound, _default(defaults[name]), says.meaning))
    heading = f"### {kind.__name__}\n\n{prose(kind.__doc__)}"
    if kind is profile.Profile:
        heading += " Its fields are those of Curve, and:"
    return f"{heading}\n\n{table(('field', 'is', 'default', 'meaning'), rows)}"


def _default(field: Any) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "empty"
    if field.default is dataclasses.MISSING:
        return ""
    if field.default == ():
        return "empty"
    if field.default is None:
        return "null"
    return code(json.dumps(field.default))


def _refusal() -> str:
    try:
        profile.loads(json.dumps({**SMALLEST, "verdict": {"shape": "crosses", "crossover": 50}}))
    except profile.ProfileError as error:
        return str(error)
    raise AssertionError("the wrong profile of the page is right")


def _shipped(name: str) -> tuple[str, ...]:
    found = shipped(name)
    threshold = thresholds.threshold_and_band(found).threshold
    levels = [level.concurrency for level in found.levels]
    word = {0.0: "never", float("inf"): "always"}.get(threshold or 0.0, f"{threshold:.1f}")
    hardware = found.fingerprint.hardware or ""
    return f"`{name}`", found.verdict.shape, word, f"{levels[0]} to {levels[-1]}", hardware


def _after_title(text: str | None) -> str:
    return (text or "").split("\n\n", 1)[1].rstrip()

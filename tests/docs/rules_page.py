"""docs/reference/rules.md, from `specgate.core.rules` and `specgate.engines`."""

from string import Template

from specgate.core import rules
from specgate.engines.base import Engine
from specgate.engines.features import FEATURES, NEUTRAL
from specgate.engines.routes import ABORT, ADMIN, ADMIN_BELOW, ADMIN_BUT_GET, ADMIN_BUT_GET_BELOW
from specgate.proxy.both import OTHER_WAIT_S
from tests.docs.markdown import code, table, written_from

PAGE = Template("""\
$origin

# Rules by request

What in a request itself decides its lane, whatever the load. [How to use
them](../how-to/rules.md) says what to set; [reasons](reasons.md) has the words for them.

## The order

$order

## Features

What the spec lane's engine does under speculation to what a request may ask for. The engine is
found out by the probes. Of one that is not known, all that some engine *changes* holds; what it
refuses is heard.

$features

A field counts where it asks for something. Null, false, 0 and what is empty do not, nor does
$neutral.

`sampling_params` of `/generate` holds the same names. Bodies above
[`SPECGATE_PEEK_LIMIT`](settings.md#specgate_peek_limit), compressed ones, and what is not JSON are
not read, and no rule looks at them.

## Calls that change an engine

Refused with 403 (`engine_admin_refused`), or sent to both lanes with
[`SPECGATE_ENGINE_ADMIN`](settings.md#specgate_engine_admin)`=both`: with any method, and in any
spelling of the path that a server or a proxy may take for the same. llama.cpp's `/tools` and
`/cors-proxy` run commands and ask other hosts for whoever calls them; both are off unless the
engine is started with them.

$admin

And all below $below. These only read with GET, and change with any other method: $but_get.

## What goes to both lanes

The client gets one answer, and the header `x-specgate-lane` says whose.

| call | answer |
|---|---|
| $abort | that of the lower status |
| about a stored response or a session that the gate was not told of | that of the lower status |
| changing an engine, with `both` | that of the higher status |

One that gives no answer, as it is down: an abort is the other's answer, as the engine there has
nothing to abort; a 404 of what is stored, and any answer to a change, is a 502 (`half_done`) that
names the lane. But for changes, the second answer is waited for no longer than $wait s.

Where one engine is in both lanes, as in shadow, all of these calls go to it like any other; but
where the gate has keys, of clients or for engines, those that change it are refused all the same:
it lends its key to nobody for that. Bodies above `SPECGATE_PEEK_LIMIT` go to neither lane: 413.

## What the gate keeps

| what | how many | how long |
|---|---|---|
| ids of stored responses and sessions | $held_most | $held_h h after their last use |
| hashes of conversations, with `SPECGATE_STICKY_S` | $talk_most | as long as that says |

Beyond that the one that was used longest ago goes. Nothing of it survives a restart, and what a
lane held is forgotten when its URL changes.
""")


def rules_page() -> str:
    doc = rules.__doc__ or ""
    start, end = doc.index("1. "), doc.index("Calls that decode nothing")
    order = doc[start:].replace("engines.features", "specgate/engines/features.py")
    assert end > start
    rows = [
        (engine, f"`{feature.field}`", feature.effect, feature.what, feature.source)
        for engine in Engine
        for feature in FEATURES.get(engine, ())
    ]
    neutral = " or ".join(f"`{name}` of {values[0]}" for name, values in NEUTRAL.items())
    return PAGE.substitute(
        origin=written_from("specgate/core/rules.py and specgate/engines"),
        order=order.strip(),
        features=table(("engine", "field", "speculation", "how", "source"), rows),
        neutral=neutral,
        admin=table(("engine", "paths"), ((name, code(*paths)) for name, paths in ADMIN.items())),
        below=code(*ADMIN_BELOW),
        but_get=code(*ADMIN_BUT_GET, *(f"{path}…" for path in ADMIN_BUT_GET_BELOW)),
        abort=code(*ABORT),
        wait=f"{OTHER_WAIT_S:g}",
        held_most=f"{rules.HELD_MOST:,}",
        held_h=f"{rules.HELD_S / 3600:g}",
        talk_most=f"{rules.CONVERSATIONS_MOST:,}",
    )

"""docs/reference/settings.md, from `specgate.settings`."""

from string import Template

from specgate.cli.config import as_table, as_text
from specgate.settings import (
    Settings,
    SettingsError,
    env_name,
    kind_of,
    load,
    reloadable_names,
)

PAGE = Template("""\
<!-- Written by `python -m tests.docs.generate` from specgate/settings: change it there. -->

# Settings

Settings are environment variables. Those that are not set may be in a TOML file, whose path is in
`SPECGATE_CONFIG`: flat keys, the names in small letters without the prefix.

```toml
spec_url = "http://10.0.0.5:8000"
plain_url = "http://10.0.0.5:8001"
threshold = 24
```

The environment wins over the file, and the file over the defaults. An empty variable counts as not
set. Durations are in seconds. Every number is finite; words may be in capitals.

`specgate config` prints the settings in force and where each came from, secrets masked:

```console
$$ SPECGATE_SPEC_URL=http://10.0.0.5:8000 SPECGATE_PLAIN_URL=http://10.0.0.5:8001 specgate config
$table
```

## All settings

| variable | default | allowed | a change takes effect on |
|---|---|---|---|
$rows

SIGHUP and `POST /_specgate/reload` are a reload: both read the file and the environment again. If
anything in them is wrong, the settings in force stay. The environment of a running process does
not change, so what is to be reloaded belongs in the file.

$sections
## Wrong settings

A wrong setting stops the start with exit code 2 and one line for each problem, which names the
setting, its value and what is allowed:

```text
$problems
```

A key of the file that is no setting is such a problem too, as is a file that is missing,
unreadable, not TOML, or without any setting (it may be half written).

A variable that begins with `SPECGATE_` and is no setting is ignored with a warning, which names the
setting that was probably meant.

## Kubernetes

For a service called `specgate`, Kubernetes gives each container of the namespace variables such as
`SPECGATE_PORT=tcp://10.0.0.1:8400`, `SPECGATE_SERVICE_HOST` and `SPECGATE_PORT_8400_TCP`. They are
ignored with one warning. `enableServiceLinks: false` in the pod's spec avoids them.
""")

LANES = {
    "SPECGATE_SPEC_URL": "http://10.0.0.5:8000",
    "SPECGATE_PLAIN_URL": "http://10.0.0.5:8001",
}
WRONG = {**LANES, "SPECGATE_BAND": "1.5", "SPECGATE_THRESHOLD": "-3"}


def settings_page() -> str:
    return PAGE.substitute(
        table=as_table(load(LANES)),
        rows="\n".join(_row(name) for name in Settings.model_fields),
        sections="\n".join(_section(name) for name in Settings.model_fields),
        problems=_problems(),
    )


def _row(name: str) -> str:
    field = Settings.model_fields[name]
    written = as_text(kind_of(name).write(field.default)) if not field.is_required() else ""
    default = {"": "required", "(unset)": "unset"}.get(written, f"`{written}`")
    effect = "reload" if name in reloadable_names() else "restart"
    link = f"[`{env_name(name)}`](#{env_name(name).lower()})"
    return f"| {link} | {default} | {kind_of(name).allowed} | {effect} |"


def _section(name: str) -> str:
    return f"### `{env_name(name)}`\n\n{Settings.model_fields[name].description}\n"


def _problems() -> str:
    try:
        load(WRONG)
    except SettingsError as error:
        return str(error)
    raise AssertionError("the wrong settings of the page are right")

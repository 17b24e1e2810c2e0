"""`specgate serve`: the gate."""

import sys

import click

# structlog draws tracebacks with rich wherever it finds it: 4 MB of modules in a server that draws
# none, 6 % of its memory. So it does not find it; commands that use rich still do.
sys.modules["rich"] = None  # type: ignore[assignment] # what `import` takes for: there is none
import structlog  # noqa: E402

del sys.modules["rich"]

from specgate.settings import load  # noqa: E402
from specgate.telemetry.logs import set_up  # noqa: E402

EPILOG = """Exit status: 0 it was told to stop and has, 1 it could not begin to listen, 2 wrong
usage or settings.
"""


@click.command(epilog=EPILOG)
def serve() -> None:
    """Run the gate in front of two lanes.

    Settings come from SPECGATE_* variables and, beneath them, from the TOML file that
    SPECGATE_CONFIG names; `specgate config` shows what is in force and why.

    \b
    Example:
      SPECGATE_SPEC_URL=http://127.0.0.1:30000 \\
      SPECGATE_PLAIN_URL=http://127.0.0.1:30001 \\
      SPECGATE_THRESHOLD=8 specgate serve

    SIGHUP reads file and environment again. SIGTERM and ^C stop it once its streams have ended.
    """
    loaded = load()
    settings = loaded.settings
    as_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
    lines = set_up(level=settings.log_level, as_json=as_json)
    log = structlog.stdlib.get_logger("specgate")
    for warning in loaded.warnings:
        log.warning("settings", message=warning)
    if settings.threshold is None:
        log.warning(
            "unmeasured",
            message="neither SPECGATE_THRESHOLD nor a profile that decides is set: nothing was "
            "measured, so every request goes to the plain lane",
        )
    for names, why in loaded.unused:
        log.warning("settings_unused", names=",".join(names), message=why)
    # Imported here: what is wrong with the settings is said at once, without loading a server.
    from specgate.server import serve as run
    from specgate.wiring import build

    if not run(build(settings, lines=lines if as_json else None)):
        sys.exit(1)

"""Which SPECGATE_* variables are settings, and what to say of the others.

Kubernetes gives every container variables for each service of its namespace. Those for a service
called specgate, or specgate-<anything>, begin as ours do; one, SPECGATE_PORT, has the very name of
a setting and is told apart by its value.
"""

import difflib
import re
from collections.abc import Iterable, Mapping

from specgate.settings.model import PREFIX, Settings, env_name

CONFIG = PREFIX + "CONFIG"
"""The variable that names the file."""

_SERVICE_LINK = re.compile(
    r"SPECGATE_(\w+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
_SERVICE_LINK_PORT = re.compile(r"SPECGATE_(\w+_)?PORT")
_SERVICE_LINK_PORT_VALUE = re.compile(r"(tcp|udp|sctp)://.*")


def sort_out(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that are settings and are not empty, and a warning for each other lot."""
    known = {env_name(name) for name in Settings.model_fields} | {CONFIG}
    ours = {
        name: value
        for name, value in sorted(environ.items())
        if value and name.upper().startswith(PREFIX)
    }
    links = [name for name, value in ours.items() if _is_service_link(name, value)]
    unknown = [name for name in ours if name not in known and name not in links]
    warnings = [f"{name} is not a setting{did_you_mean(name, known)}" for name in unknown]
    if links:
        warnings.append(
            f"ignored, as Kubernetes sets them for a service: {', '.join(links)} "
            "(enableServiceLinks: false in the pod's spec avoids them)"
        )
    settings = {name: value for name, value in ours.items() if name in known and name not in links}
    return settings, tuple(warnings)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says that `name` is unknown; empty when nothing is close."""
    # Without the prefix: all names share it, which would make all of them look alike.
    bare = {_bare(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_bare(name), bare, n=1)
    return f"; did you mean {bare[close[0]]}?" if close else ""


def _bare(name: str) -> str:
    return name.upper().removeprefix(PREFIX)


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    return bool(_SERVICE_LINK_PORT.fullmatch(name) and _SERVICE_LINK_PORT_VALUE.fullmatch(value))

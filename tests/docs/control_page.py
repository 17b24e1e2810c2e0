"""docs/reference/control-api.md, from the gate's OpenAPI schema."""

import json
from string import Template
from typing import Any

from specgate.core.alternation import Step
from specgate.core.config import Placement
from tests.docs.a_gate import a_gate
from tests.docs.markdown import code, table, written_from

PAGE = Template("""\
$origin

# Control surface

The gate's own routes. Everything else goes to a lane. The same, to try out in a browser, is at
`/_specgate/docs` (its files come from a package, so it works in a closed network); the schema is at
`/_specgate/openapi.json`.

`/ready` and `/health` answer as `/readyz` does. All four probes answer HEAD too.

## Who may change things

The changing calls need [`SPECGATE_ADMIN_TOKEN`](settings.md#specgate_admin_token), sent as
`Authorization: Bearer ...`. A gate that was started without a token refuses them with 403, and a
wrong or missing token gets 401.

## Who may read

Whoever reaches the gate, unless [`SPECGATE_CONTROL_READ`](settings.md#specgate_control_read) is
`token`: then all below `/_specgate` needs the same token, `/_specgate/docs` and the schema
included, and without it gets 401. The [dashboard](../how-to/dashboard.md)'s page and its files are
served to all, and hold nothing of the gate's. The probes and `/metrics` need no token.

## How long a change lasts

A change by hand lasts until the next reload or restart: a reload takes file and environment for
the truth. The mode is no setting; it stays through a reload.

## Errors, and bodies

Errors have OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`. A body must be sent
with `Content-Type: application/json`.

$routes

## What they say and take

$schemas
""")


def control_page() -> str:
    schema = a_gate().app.openapi()
    routes = [
        _route(method.upper(), path, route)
        for path, methods in schema["paths"].items()
        for method, route in methods.items()
    ]
    shown = {
        name: part
        for name, part in schema["components"]["schemas"].items()
        if part.get("type") == "object" and name != "ErrorBody"
    }
    return PAGE.substitute(
        origin=written_from("the gate's OpenAPI schema"),
        routes="\n\n".join(routes),
        schemas="\n\n".join(_schema(name, part) for name, part in shown.items()),
    )


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    parts = [f"## {method} {path}", f"{route['summary'].rstrip('.')}"]
    if "parameters" in route:
        rows = [
            (f"`{each['name']}`", _type(each["schema"]), each.get("description", ""))
            for each in route["parameters"]
        ]
        parts.append(table(("parameter", "type", "meaning"), rows))
    if "requestBody" in route:
        parts.append(f"Takes {_link(route['requestBody'])}.")
    takes_body = "requestBody" in route or method == "POST"
    answers = [
        (f"`{status}`", _link(answer) or "text", _when(answer["description"]))
        for status, answer in sorted(route["responses"].items())
        if status != "422" or takes_body or "parameters" in route
    ]
    parts.append(table(("status", "body", "when"), answers))
    return "\n\n".join(parts)


def _when(description: str) -> str:
    """FastAPI's own words for a 200 say nothing."""
    return "done" if description == "Successful Response" else description


def _link(part: dict[str, Any]) -> str:
    schema = part.get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" not in schema:
        return ""
    name = schema["$ref"].rsplit("/", 1)[1]
    return "an error" if name == "ErrorBody" else f"[{name}](#{name.lower()})"


def _schema(name: str, part: dict[str, Any]) -> str:
    rows = [
        (f"`{field}`", _type(value), value.get("description", ""))
        for field, value in part["properties"].items()
    ]
    heading = f"### {name}\n\n{part.get('description', '')}"
    return f"{heading}\n\n{table(('field', 'type', 'meaning'), rows)}"


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        words = {"Lane": ("spec", "plain"), "Mode": ("auto", "spec", "plain")}
        words["Health"] = ("probing", "healthy", "ejected")
        words["Step"], words["Placement"] = tuple(Step), tuple(Placement)
        if name == "Reason":
            return "[a reason](reasons.md)"
        return code(*words[name]) if name in words else f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_type(one) for one in value["anyOf"])
    if "enum" in value:
        return code(*value["enum"])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    if isinstance(inner := value.get("additionalProperties"), dict):
        return f"object by lane of {_type(inner)}"
    if value.get("format") == "date-time":
        return "text, ISO 8601"
    kind: str = value["type"]
    return {"integer": "whole number", "string": "text"}.get(kind, kind)

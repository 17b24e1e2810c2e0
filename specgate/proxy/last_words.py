"""What the gate says on a stream that will not be whole: an error in its API's shape.

Sent in place of the rest, and then the stream is cut, without the API's end mark and without the
end that its framing has: a client that knows no error events must not take it for complete either.
"""

import json
import re
from typing import Any

from specgate.core.errors import Fault
from specgate.core.routes import RouteClass
from specgate.core.sse import ends_event

_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d{1,9})')


def last_words(route: RouteClass, sent: bytes, fault: Fault) -> bytes:
    """The bytes to end a stream with. `sent`: its last bytes, as the client has them: an event that
    was sent in part is ended first, as nothing else can be said within it."""
    before = b"" if ends_event(sent) else b"\n\n"
    match route:
        case RouteClass.RESPONSES | RouteClass.STORED:
            name, data = b"event: error\n", _of_responses(sent, fault)
        case RouteClass.MESSAGES:
            name, data = b"event: error\n", _of_messages(fault)
        case _:
            name, data = b"", {"error": _error(fault)}
    return b"%b%bdata: %b\n\n" % (before, name, json.dumps(data).encode())


def last_line(sent: bytes, fault: Fault) -> bytes:
    """The same of a stream of JSON lines, in Ollama's shape."""
    before = b"" if not sent or sent.endswith(b"\n") else b"\n"
    return b"%b%b\n" % (before, json.dumps({"error": str(fault)}).encode())


def _error(fault: Fault) -> dict[str, Any]:
    return {"message": str(fault), "type": "server_error", "param": None, "code": fault.code}


def _of_responses(sent: bytes, fault: Fault) -> dict[str, Any]:
    """OpenAI's Responses API numbers its events."""
    numbers = _NUMBER.findall(sent)
    number = int(numbers[-1]) + 1 if numbers else 0
    said = {"code": fault.code, "message": str(fault), "param": None}
    return {"type": "error", **said, "sequence_number": number}


def _of_messages(fault: Fault) -> dict[str, Any]:
    """Anthropic's Messages API."""
    return {"type": "error", "error": {"type": "api_error", "message": str(fault)}}

"""What kind of call a request is, from the gate's point of view."""

from specgate.core.label import Label


class RouteClass(Label):
    """A closed set, so that it can be a metric's label.

    Only the generation classes decode tokens; only they are load and enter the ledger. Of the
    others: `session` opens one that the engine holds from then on; `stored` is about a session or a
    response that an engine holds; `abort` stops requests; `admin` changes an engine.
    """

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    OTHER_GENERATION = "other_generation"
    SESSION = "session"
    STORED = "stored"
    ABORT = "abort"
    ADMIN = "admin"
    OTHER = "other"

    # An attribute of each, set below: a request asks for it several times.
    is_generation: bool


GENERATES = frozenset(
    {
        RouteClass.CHAT,
        RouteClass.COMPLETIONS,
        RouteClass.RESPONSES,
        RouteClass.MESSAGES,
        RouteClass.GENERATE,
        RouteClass.OTHER_GENERATION,
    }
)
for _route in RouteClass:
    _route.is_generation = _route in GENERATES

"""What kind of call a request is, from the gate's point of view."""

from specgate.core.label import Label


class RouteClass(Label):
    """A closed set, so that it can be a metric's label.

    Only the generation classes decode tokens; only they are load and enter the ledger.
    """

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    OTHER_GENERATION = "other_generation"
    OTHER = "other"

    @property
    def is_generation(self) -> bool:
        return self is not RouteClass.OTHER

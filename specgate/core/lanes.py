"""The two ways to serve a request."""

from specgate.core.label import Label


class Lane(Label):
    """A lane is one URL: an engine that drafts and verifies, or one that does not."""

    SPEC = "spec"
    PLAIN = "plain"

    @property
    def other(self) -> "Lane":
        return Lane.PLAIN if self is Lane.SPEC else Lane.SPEC

"""The two ways to serve a request."""

from specgate.core.label import Label


class Lane(Label):
    """A lane is one URL: an engine that drafts and verifies, or one that does not."""

    SPEC = "spec"
    PLAIN = "plain"

    # An attribute of each, set below: a request asks for it.
    other: "Lane"


Lane.SPEC.other, Lane.PLAIN.other = Lane.PLAIN, Lane.SPEC

"""How clients behave: what each asks for, how it sends and reads, and when it leaves."""

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.orders import Form, Order


class Leaves(StrEnum):
    """When a client leaves, if it does."""

    NEVER = "never"
    IN_UPLOAD = "in_upload"
    AT_ONCE = "at_once"  # as soon as all is sent
    WAITING = "waiting"  # a little later, mostly before an answer
    READING = "reading"  # within the answer
    HALF = "half"  # it ends its direction, and reads on


@dataclass(frozen=True, slots=True)
class Manner:
    """chunked: the body is framed so. paced: it is sent in pieces, with pauses. slow: the answer is
    read so. by_reset: it leaves by a RST and not a FIN. reuse: its next request comes on the same
    connection."""

    chunked: bool = False
    paced: bool = False
    slow: bool = False
    leaves: Leaves = Leaves.NEVER
    by_reset: bool = False
    reuse: bool = True

    @property
    def label(self) -> str:
        """In one word, for the figures."""
        if self.leaves is not Leaves.NEVER:
            return f"leaves {self.leaves}"
        return "slow reader" if self.slow else "stays"


def drawn(rng: random.Random, marker: str, *, brief: bool) -> tuple[Order, Manner]:
    """One request of the mix. brief: nothing slow in it."""
    form = rng.choices([Form.STREAM, Form.WHOLE, Form.MODELS], [60, 30, 10])[0]
    slow = not brief and form is not Form.MODELS and rng.random() < 0.1
    large = form is not Form.MODELS and rng.random() < 0.1
    order = Order(
        marker,
        form,
        # A slow reader's answer is larger than the sockets' buffers on the way.
        tokens=rng.randint(60, 100) if slow else rng.randint(2, 24),
        pad=8000 if slow else rng.choice([0, 0, 40, 400]),
        sequences=rng.choices([1, 2, 3], [85, 10, 5])[0],
        filler=rng.choice([100_000, 300_000, 800_000]) if large else rng.choice([10, 1000]),
    )
    leaves = Leaves.NEVER
    if rng.random() < 0.2:
        leaves = rng.choice([each for each in Leaves if each is not Leaves.NEVER])
        if leaves is Leaves.IN_UPLOAD and form is Form.MODELS:
            leaves = Leaves.AT_ONCE
    manner = Manner(
        chunked=form is not Form.MODELS and rng.random() < 0.15,
        paced=not brief and form is not Form.MODELS and rng.random() < 0.1,
        slow=slow,
        leaves=leaves,
        by_reset=rng.random() < 0.5,
        reuse=rng.random() < 0.85,
    )
    return order, manner

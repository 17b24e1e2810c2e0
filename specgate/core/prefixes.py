"""What a switch loses of the lanes' prefix caches.

A conversation's next request finds its prefix cached in the lane that served it before. After a
switch it goes to the other one, which reads that prefix anew, and what that lane serves waits
meanwhile. Requests arrive at a rate; of each, so many tokens would have been found; and it is lost
to those whose conversation last spoke before the switch, which with gaps of a mean length goes on
for about that length. So a switch costs the new lane

    rate x tokens x gap_s / prefill_tok_s        seconds of its time

which `core.regret` adds to the price. Each of the three must have been measured: without them
nothing is added. Live, each has a source: tokens from the engines' `cached_tokens` in `usage`, on
the mean over all requests; the gap from conversations that are followed (`SPECGATE_STICKY_S`); the
rate of reading from a profile's lengths of prompts over TTFT at its lowest level. The gate reads
none of them yet, so its price counts no lost prefix; a replay does, as its options state them.
"""

from typing import NamedTuple


class Prefixes(NamedTuple):
    """tokens: of an arriving request, on the mean over all, those that its lane has cached. gap_s:
    mean time since its conversation's last request. prefill_tok_s: how fast a lane reads."""

    tokens: float
    gap_s: float
    prefill_tok_s: float

    def lost_s(self, rate: float) -> float:
        """Seconds of a lane's time that a switch costs at so many requests a second."""
        return rate * self.tokens * self.gap_s / self.prefill_tok_s

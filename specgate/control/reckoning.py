"""What the gate reckons with where a profile says how both lanes behave: its curves, moved by what
was learnt since, and what is weighed by them."""

from specgate.core.accept import Counted
from specgate.core.adaptive import Adaptive, adaptive_of
from specgate.core.config import PolicyConfig
from specgate.core.contexts import Prompts
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.core.load import Counts
from specgate.core.regret import Constants
from specgate.core.view import AcceptView
from specgate.core.weighing import Weighing


class Reckoning:
    """`now`: monotonic seconds. `weighing`: None without a profile's curves."""

    def __init__(self, policy: PolicyConfig, now: float, constants: Constants) -> None:
        self._policy = policy
        self._constants = constants
        self._adaptive: Adaptive | None = None
        self._prompts: Prompts | None = None
        self.weighing: Weighing | None = None
        self.use(policy, now)

    def use(self, policy: PolicyConfig, now: float) -> None:
        """Another policy from now on; what was learnt stays where it still means something."""
        self._policy = policy
        curves, contexts = policy.curves, policy.contexts
        if contexts is None:
            self._prompts = None
        elif self._prompts is None:
            self._prompts = Prompts(contexts)
        else:
            self._prompts.use(contexts)
        if self._adaptive is None or curves is None or curves.accept_length is None:
            self._adaptive = adaptive_of(curves)
        else:
            self._adaptive.use(curves)
        if curves is None:
            self.weighing = None
        elif self.weighing is None:
            self.weighing = Weighing(self._curves(now), now, constants=self._constants)
        else:
            self.weighing.use(self._curves(now))

    @property
    def first_side(self) -> Lane:
        """Where an idle gate begins."""
        return Lane.PLAIN if self.weighing is None else self.weighing.first_side

    def step(
        self,
        now: float,
        side: Lane,
        counts: Counts,
        beyond: Counts,
        *,
        waiting: int = 0,
        serving: Lane | None = None,
    ) -> None:
        """Take the time since the last step into account. serving: the lane that serves while the
        side's sleeps."""
        if self.weighing is not None:
            self.weighing.use(self._curves(now))
            # In shadow, or while the side's lane sleeps, what is in flight is another side's.
            seen = self._policy.shadow is None and serving is None
            self.weighing.step(
                now, side, counts, beyond, seen=seen, waiting=waiting, serving=serving
            )

    def saw_prompt(self, tokens: int | None, now: float) -> None:
        """A generation ended, and its engine said so many prompt tokens; None: it said nothing."""
        if self._prompts is not None:
            self._prompts.ended(tokens, now)

    def prompt_tokens(self, now: float) -> float | None:
        """The recent prompts' mean length, where the profile has several; None: not known."""
        return None if self._prompts is None else self._prompts.mean(now)

    def saw_accept_length(self, reading: Counted, now: float) -> None:
        """What the spec lane's engine has counted of its decode steps."""
        if self._adaptive is not None:
            self._adaptive.saw(reading, now)

    def forget_accept_length(self) -> None:
        """Another engine is in the spec lane."""
        if self._adaptive is not None:
            self._adaptive.forget()

    def accept(self, now: float, load: float) -> AcceptView | None:
        """The live accept length, and what it would have to be at this load."""
        if self._adaptive is None:
            return None
        found = self._adaptive.estimate(now)
        return AcceptView(
            live=found.accept_length,
            standard_error=found.standard_error * self._adaptive.bench,
            bench=self._adaptive.bench,
            age_s=found.age_s,
            break_even=self._adaptive.break_even(load),
        )

    def _curves(self, now: float) -> Curves:
        """The profile's, of the prompts that come where it has several lengths, and moved by the
        live accept length where the policy wants it."""
        curves = self._policy.curves
        assert curves is not None
        if self._prompts is not None:
            curves = self._prompts.curves(now)
            if self._adaptive is not None and curves.accept_length is not None:
                self._adaptive.use(curves)
        if self._adaptive is None or not self._policy.adaptive:
            return curves
        return self._adaptive.curves(now)

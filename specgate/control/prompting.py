"""The length of prompts, from the facts of requests to the gate, which weighs by it."""

from specgate.control.gate import Gate
from specgate.core.events import Event, Outcome, RequestEnded


class Prompting:
    """An observer of facts."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __call__(self, event: Event) -> None:
        if (
            self._gate.follows_prompts
            and isinstance(event, RequestEnded)
            and event.route.is_generation
            and event.outcome is Outcome.COMPLETED
        ):
            self._gate.saw_prompt(event.prompt_tokens)

"""What the simulated engine says: a fixed tape of words, read from a place that the prompt picks.

Token i of an answer depends on (seed, prompt, choice, i) alone: both lanes say the same, as a
lossless speculation must, and a test may compare any slice. Words are ASCII without quotes or
backslashes, so they need no escaping in JSON.
"""

from random import Random
from zlib import crc32

from specgate.sim.prompts import PromptClass, median_tokens

_VOCABULARY = """
the a this that each every one some many few more less and or but so because when while if
then than as of to in on at by for with from over under between gate lane pool engine load
draft token batch step queue stream answer question number word line page river stone tree
cloud light road city garden window table paper letter morning evening winter summer hand
small large quick slow clear plain early late open closed near far new old simple certain is
was has had can may must will keeps gives takes makes finds shows turns moves holds runs
reads writes falls rises stays begins ends. now. here. again. too. well. always. soon.
"""
WORDS = tuple(_VOCABULARY.split())
TAPE_TOKENS = 4_096
SHORTEST, LONGEST = 8, 4_096
SPREAD = 0.5


class Tape:
    """The words of one seed. A token is a word and the space after it; its id is its place in
    the vocabulary.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(seed)  # noqa: S311 - words, not secrets
        self._seed = seed
        self._ids = [rng.randrange(len(WORDS)) for _ in range(TAPE_TOKENS)] * 2
        self._text = "".join(WORDS[i] + " " for i in self._ids)
        self._starts = [0]
        for i in self._ids:
            self._starts.append(self._starts[-1] + len(WORDS[i]) + 1)

    def place(self, prompt: str, choice: int) -> int:
        """Where on the tape this choice of this prompt's answer begins."""
        return crc32(f"{self._seed}/{choice}/{prompt}".encode()) % TAPE_TOKENS

    def words(self, place: int, start: int, stop: int) -> str:
        """Tokens start..stop of the answer at `place`."""
        if stop - start > TAPE_TOKENS:
            half = start + TAPE_TOKENS
            return self.words(place, start, half) + self.words(place, half, stop)
        first = (place + start) % TAPE_TOKENS
        return self._text[self._starts[first] : self._starts[first + stop - start]]

    def ids(self, place: int, start: int, stop: int) -> list[int]:
        return [self._ids[(place + i) % TAPE_TOKENS] for i in range(start, stop)]


class LostTape(Tape):
    """What an engine says whose weights are gone: the first word of the vocabulary, for ever."""

    def words(self, place: int, start: int, stop: int) -> str:
        return "!" * (stop - start)

    def ids(self, place: int, start: int, stop: int) -> list[int]:
        return [0] * (stop - start)


def natural_length(place: int, prompt_class: PromptClass) -> int:
    """Tokens after which the answer at `place` would end by itself: log-normal for its class."""
    drawn = Random(place).lognormvariate(0.0, SPREAD)  # noqa: S311 - a simulation
    return min(max(round(median_tokens(prompt_class) * drawn), SHORTEST), LONGEST)

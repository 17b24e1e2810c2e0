import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgate.sim.accept import accept_length
from specgate.sim.prompts import PromptClass, class_p, classify, count_tokens
from specgate.sim.text import TAPE_TOKENS, WORDS, Tape, natural_length

TAPE = Tape(1)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Translate this sentence into French: the river is wide.", PromptClass.TRANSLATION),
        ("Summarise the following report for a busy reader.", PromptClass.SUMMARY),
        ("Extract every date from the letter below.", PromptClass.EXTRACTION),
        ("Write a function that sorts a list of intervals.", PromptClass.CODE),
        ("Solve for x: 3x + 4 = 19.", PromptClass.MATHS),
        ("Hello! What do you think of long walks?", PromptClass.CHAT),
        ("The harbour at dawn.", PromptClass.MIX),
        ("", PromptClass.MIX),
    ],
)
def test_a_prompt_is_classed_by_its_words(prompt: str, expected: PromptClass) -> None:
    assert classify(prompt) is expected


def test_published_acceptance_is_kept_for_the_reference_draft() -> None:
    lengths = {c: accept_length(class_p(c, 0.704), 2) for c in PromptClass}
    assert lengths[PromptClass.CODE] == pytest.approx(2.627, abs=0.001)
    assert lengths[PromptClass.CHAT] == pytest.approx(2.285, abs=0.001)
    assert lengths[PromptClass.MIX] == pytest.approx(2.2, abs=0.001)
    assert max(lengths, key=lengths.__getitem__) is PromptClass.EXTRACTION


def test_a_worse_draft_is_worse_for_every_class() -> None:
    for prompt_class in PromptClass:
        assert class_p(prompt_class, 0.5) < class_p(prompt_class, 0.704)
        assert class_p(prompt_class, 0.0) == 0.0


@given(st.text(max_size=200), st.integers(0, 5), st.integers(0, 60), st.integers(0, 60))
def test_slices_of_an_answer_join_up(prompt: str, choice: int, first: int, more: int) -> None:
    tape = TAPE
    place = tape.place(prompt, choice)
    whole = tape.words(place, 0, first + more)
    assert tape.words(place, 0, first) + tape.words(place, first, first + more) == whole
    ids = tape.ids(place, 0, first + more)
    assert whole == "".join(WORDS[i] + " " for i in ids)


def test_an_answer_longer_than_the_tape_goes_round() -> None:
    tape = TAPE
    place = TAPE_TOKENS - 3
    text = tape.words(place, 0, 2 * TAPE_TOKENS + 5)
    assert len(text.split()) == 2 * TAPE_TOKENS + 5


def test_words_need_no_escaping() -> None:
    assert all(json.dumps(word) == f'"{word}"' for word in WORDS)


def test_the_seed_changes_what_is_said() -> None:
    assert Tape(1).words(0, 0, 20) == Tape(1).words(0, 0, 20) != Tape(2).words(0, 0, 20)


@given(st.integers(0, TAPE_TOKENS), st.sampled_from(PromptClass))
def test_natural_lengths_are_sane_and_stable(place: int, prompt_class: PromptClass) -> None:
    length = natural_length(place, prompt_class)
    assert 8 <= length <= 4_096
    assert length == natural_length(place, prompt_class)


@given(st.text())
def test_every_prompt_has_a_token(prompt: str) -> None:
    assert count_tokens(prompt) >= 1

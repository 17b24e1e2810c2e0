"""Which prompts are sent, in which order, and that no cache knows them."""

import json
from collections import Counter

import pytest

from specgate.bench.asking import Manner, body_of
from specgate.bench.faults import Misused
from specgate.bench.plan import Block, Group
from specgate.bench.prompts import Dealt, Prompt, deal, digest, load

AS_THEY_ARE = Group(context=None, max_tokens=64)
FIRST = Block(group=AS_THEY_ARE, concurrency=4, repeat=0)
CLASSES = {"chat", "code", "summary", "extraction", "maths", "translation"}


def test_the_shipped_set_is_diverse():
    prompts = load("builtin")
    counts = Counter(prompt.prompt_class for prompt in prompts)
    assert set(counts) == CLASSES
    assert min(counts.values()) >= 20
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_a_block_deals_the_same_to_everyone_who_knows_its_seed_and_salt():
    prompts = load("builtin")
    once, again = (deal(prompts, FIRST, 50, seed=7, salt="s") for _ in range(2))
    assert once == again
    other = deal(prompts, FIRST, 50, seed=8, salt="s")
    assert [d.prompt.text[11:] for d in other] != [d.prompt.text[11:] for d in once]


def test_another_block_and_another_salt_have_other_nonces():
    prompts = load("fixed")
    second = Block(group=AS_THEY_ARE, concurrency=4, repeat=1)
    texts = [
        dealt.prompt.text
        for block, salt in ((FIRST, "a"), (second, "a"), (FIRST, "b"))
        for dealt in deal(prompts, block, 40, seed=0, salt=salt)
    ]
    heads = {text[:10] for text in texts}
    assert len(heads) == len(texts) == 120
    assert all(text[0] == "[" for text in texts)


def test_a_salt_changes_nonces_and_nothing_else():
    prompts = load("builtin")
    one, two = (deal(prompts, FIRST, 30, seed=0, salt=salt) for salt in "ab")
    assert [d.prompt.text[11:] for d in one] == [d.prompt.text[11:] for d in two]


def test_any_stretch_has_about_the_mix_of_the_set():
    dealt = deal(load("builtin"), FIRST, 126, seed=3, salt="")
    for start in range(0, 90, 30):
        counts = Counter(d.prompt.prompt_class for d in dealt[start : start + 36])
        assert set(counts) == CLASSES
        assert max(counts.values()) <= 9


def test_prompts_come_again_when_they_are_used_up():
    dealt = deal(load("fixed"), FIRST, 5, seed=0, salt="")
    assert len({d.seed for d in dealt}) == 5


@pytest.mark.parametrize("tokens", [500, 2_000, 12_000])
def test_a_context_is_filled_with_text_and_keeps_the_question_last(tokens):
    prompts = load("builtin")
    block = Block(group=Group(context=tokens, max_tokens=64), concurrency=1, repeat=0)
    short = deal(prompts, FIRST, 10, seed=0, salt="")
    assert max(len(d.prompt.text) for d in short) < 2_000
    for dealt in deal(prompts, block, 10, seed=0, salt=""):
        assert len(dealt.prompt.text) == pytest.approx(tokens * 4.2, rel=0.05)
        question = dealt.prompt.text.rpartition("\n\n")[2]
        assert any(prompt.text.endswith(question) for prompt in prompts)


def test_a_file_may_be_in_either_shape(tmp_path):
    rows = [
        {"class": "code", "messages": [{"role": "system", "content": "Be brief."}, _user("one")]},
        {"messages": [_user("two"), {"role": "assistant", "content": "yes"}]},
        {"conversations": [{"from": "human", "value": "three"}, {"from": "gpt", "value": "no"}]},
        {"body": {"messages": [_user([{"type": "text", "text": "four"}])]}, "category": "chat"},
        {"prompt": "five"},
    ]
    lines = tmp_path / "prompts.jsonl"
    lines.write_text("\n\n".join(map(json.dumps, rows)))
    listed = tmp_path / "prompts.json"
    listed.write_text(json.dumps(rows))
    prompts = load(str(lines))
    assert [p.messages[-1][1] for p in prompts] == ["one", "two", "three", "four", "five"]
    assert [p.prompt_class for p in prompts] == ["code", "other", "other", "chat", "other"]
    assert prompts[0].messages[0] == ("system", "Be brief.")
    assert load(str(listed)) == prompts
    assert digest(prompts) != digest(prompts[:-1])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("", "no prompts"),
        ('{"prompt": "a"}\n{"text": "b"}', "entry 2"),
        ('{"messages": []}', "entry 1"),
    ],
)
def test_a_file_in_no_shape_is_told_with_its_place(tmp_path, text, told):
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    with pytest.raises(Misused, match=told):
        load(str(path))


def test_a_missing_file_is_told():
    with pytest.raises(Misused, match="No such file"):
        load("nowhere.jsonl")


def test_the_three_apis_ask_for_the_same_thing():
    dealt = Dealt(
        prompt=Prompt(messages=(("system", "s"), ("user", "u")), prompt_class="x"), seed=9
    )
    chat = body_of(dealt, 64, "m", Manner(temperature=0.7))
    assert chat == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 64,
        "temperature": 0.7,
        "seed": 9,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text = body_of(dealt, 64, None, Manner(api="completions", stream=False, ignore_eos=False))
    assert text["prompt"] == "s\n\nu"
    assert "model" not in text
    assert "stream_options" not in text
    assert text["ignore_eos"] is False
    own = body_of(dealt, 64, "m", Manner(api="generate", extra={"rid": "r"}))
    assert own["text"] == "s\n\nu"
    assert own["rid"] == "r"
    assert own["sampling_params"]["max_new_tokens"] == 64
    assert own["sampling_params"]["sampling_seed"] == 9


def _user(content):
    return {"role": "user", "content": content}

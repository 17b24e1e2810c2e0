"""Each reported case has a test that is named by its id, stands here with a test that has another
name, or stands here with the reason why it cannot happen to a gate."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

CASES = dict(zip("ABCDEFGIJKLMNOP", (10, 12, 9, 7, 7, 10, 12, 6, 4, 6, 4, 6, 5, 3, 6), strict=True))
"""How many there are of each letter; there is no H."""

ELSEWHERE = {
    "B02": "live/test_usage.py::test_usage_is_asked_for_and_its_event_taken_out",
    "E06": "live/test_queue.py::test_a_client_that_leaves_the_queue_frees_its_place",
    "L01": "e2e/test_drain.py::test_it_settles_then_refuses_then_ends_with_its_last_stream",
    "L02": "e2e/test_drain.py::test_it_settles_then_refuses_then_ends_with_its_last_stream",
    "L03": "live/test_reload.py::test_a_broken_file_under_traffic_keeps_the_last_good_settings",
    "L04": "e2e/test_drain.py::test_a_second_signal_ends_it_at_once",
    "M01": "live/test_usage.py::test_by_default_nothing_is_asked_for",
    "M05": "live/test_queue.py::test_a_full_queue_is_429_with_when_to_come_again",
    "P04": "settings/test_names.py::"
    "test_kubernetes_variables_do_no_harm_and_are_named_in_one_warning",
    "P06": "live/test_rules_share.py::test_above_the_share_the_whole_side_is_plain_and_comes_back",
}

DOES_NOT_APPLY = {
    "M03": "the gate has no aliases: a model's name goes through in both directions as it came",
}

_NAMED = re.compile(r"test_([a-p]\d\d)_")


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of a file's tests."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


@cache
def named() -> dict[str, set[str]]:
    """The cases that have a test of their name, and the files that it is in."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        relative = str(path.relative_to(TESTS))
        for name in names_in(relative):
            if case := _NAMED.match(name):
                found.setdefault(case[1].upper(), set()).add(relative)
    return found


def every_case() -> list[str]:
    return [
        f"{letter}{number:02}" for letter, count in CASES.items() for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("case", every_case())
def test_it_has_a_test_or_a_reason(case: str):
    places = [case in named(), case in ELSEWHERE, case in DOES_NOT_APPLY]
    assert sum(places) == 1, f"{case} has {places}: a test of its name, one elsewhere, a reason"
    if case in ELSEWHERE:
        path, _, name = ELSEWHERE[case].partition("::")
        assert name in names_in(path)


def test_nothing_else_is_named_like_a_case():
    assert set(named()) | set(ELSEWHERE) | set(DOES_NOT_APPLY) == set(every_case())


def test_cases_are_in_the_folder_of_cases_or_with_what_they_are_about():
    for case, files in named().items():
        places = ("cases/", "contract/", "live/test_security")
        assert all(file.startswith(places) for file in files), (case, files)

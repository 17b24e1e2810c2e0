"""The report, as a user gets it: by `specgate report`, and at the end of a bench."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import anyio.to_thread
import pytest
from click.testing import CliRunner

from specgate.bench import palette
from specgate.bench.analyse import analyse
from specgate.bench.judging import Rules
from specgate.bench.shipped import names, shipped
from specgate.bench.wording import headline
from specgate.cli.main import main
from specgate.core.lanes import Lane
from specgate.core.profile import ArmRate, Engine, Fingerprint, OpenLoop, Rate, dumps
from tests.bench.drawn import (
    HTML,
    SVG,
    axis,
    cells,
    colours,
    lines,
    text_of,
    tree,
    what_it_loads,
)
from tests.bench.engines import pair
from tests.bench.synthetic import LEVELS, falling
from tests.bench.synthetic import cells as measured

EVERY = ("throughput", "ratio", "ttft", "tpot", "e2e", "per-user", "accept-length")
HOSTILE = "<script>alert(1)</script>"


def curves(*, crossing=26.0, arms=("spec",), levels=LEVELS):
    plain = {c: 95.0 * c / (1 + c / 22) for c in levels}
    truth = falling(0.12, crossing)
    return {
        "plain": plain,
        **{
            arm: {c: plain[c] * math.exp(truth(c)) * (1 - 0.05 * i) for c in levels}
            for i, arm in enumerate(arms)
        },
    }


def profile(*, fingerprint=None, contexts=(None,), **of):
    found = []
    for context in contexts:
        made = measured(
            curves(**of), context=context, accept_length=2.5, by_class={"code": 3.0, "chat": 2.0}
        )
        found += [
            replace(c, accept_length=None, by_class={}) if c.arm == "plain" else c for c in made
        ]
    return analyse(found, fingerprint=fingerprint, rules=Rules(draws=200))


def saved(folder, made):
    folder.mkdir(exist_ok=True)
    file = folder / "profile.json"
    file.write_text(dumps(made))
    return file


def process(*words, env=None):
    return subprocess.run(
        [sys.executable, "-m", "specgate", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, **(env or {})},
    )


def report(*words):
    return CliRunner().invoke(main, ["report", *map(str, words)])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A profile with all that can be measured, and the folder of its report."""
    made = profile(fingerprint=Fingerprint(model="llama", engines={"spec": Engine(name="sglang")}))
    folder = tmp_path_factory.mktemp("drawn")
    saved(folder, made)
    result = process("report", folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"Report: {folder / 'report.html'}\n"
    return made, folder


def test_the_page_begins_with_the_verdict_and_the_table(drawn):
    made, folder = drawn
    page = tree(folder / "report.html")
    paragraphs = [text_of(each) for each in page.iter(f"{HTML}p")]
    assert paragraphs[0] == headline(made)
    head, *rows = cells(next(page.iter(f"{HTML}table")))
    assert head[:4] == ["C", "spec tok/s", "plain tok/s", "spec/plain"]
    assert [row[0] for row in rows] == [str(level.concurrency) for level in made.levels]
    for row, level in zip(rows, made.levels, strict=True):
        assert float(row[1].split()[0]) == pytest.approx(level.arms["spec"].tok_s, rel=1e-3)
        assert float(row[2].split()[0]) == pytest.approx(level.arms["plain"].tok_s, rel=1e-3)
        assert float(row[3].split()[0]) == pytest.approx(level.ratio, rel=5e-3)
        assert row[4] == level.standing
    assert "sglang" in text_of(page)


def test_each_figure_is_in_the_page_and_a_file_with_a_sentence_below_it(drawn):
    _, folder = drawn
    assert {file.stem for file in (folder / "figures").iterdir()} == set(EVERY)
    page = tree(folder / "report.html")
    figures = list(page.iter(f"{HTML}figure"))
    assert len(figures) == len(EVERY)
    for figure in figures:
        assert figure.find(f"{SVG}svg") is not None
        caption = text_of(figure.find(f"{HTML}figcaption"))
        assert caption.endswith(".")
        assert caption.count(". ") == 0
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_the_curves_are_drawn_where_the_numbers_are(drawn):
    made, folder = drawn
    svg = tree(folder / "figures" / "throughput.svg")
    up = {float(label): y for label, (_, y) in axis(svg, "y").items()}
    (low, low_y), *_, (high, high_y) = sorted(up.items())
    along = axis(svg, "x")
    for arm, style in palette.styles(["spec", "plain"]).items():
        (curve,) = lines(svg, style.light)
        assert len(curve) == len(made.levels)
        for (x, y), level in zip(curve, made.levels, strict=True):
            tok_s = low + (y - low_y) / (high_y - low_y) * (high - low)
            assert tok_s == pytest.approx(level.arms[arm].tok_s, abs=0.001 * high)
            if str(level.concurrency) in along:
                assert x == pytest.approx(along[str(level.concurrency)][0], abs=0.01)


def test_the_crossover_is_marked_where_it_is_with_its_interval(drawn):
    made, folder = drawn
    verdict = made.verdict
    for name in ("throughput", "ratio"):
        svg = tree(folder / "figures" / f"{name}.svg")
        ticks = {float(label): x for label, (x, _) in axis(svg, "x").items()}
        (one, one_x), *_, (last, last_x) = sorted(ticks.items())
        upright = [
            points[0][0]
            for points in lines(svg, palette.INK.light, dashed=True)
            if points[0][0] == points[1][0]
        ]
        (x,) = upright
        load = one * (last / one) ** ((x - one_x) / (last_x - one_x))
        assert load == pytest.approx(verdict.crossover, rel=0.01)
        said = [text_of(text) for text in svg.iter(f"{SVG}text")]
        (label,) = [text for text in said if text.startswith("crossover")]
        low, high = label.rpartition("(90%: ")[2].rstrip(")").split(" to ")
        assert float(low) == pytest.approx(verdict.interval[0], rel=0.01)
        assert float(high) == pytest.approx(verdict.interval[1], rel=0.01)


def test_an_arm_has_one_colour_in_all_figures(drawn):
    _, folder = drawn
    arms = palette.styles(["spec", "plain"])
    for name in EVERY:
        found = colours(tree(folder / "figures" / f"{name}.svg"))
        assert arms["spec"].light in found
        assert (arms["plain"].light in found) is (name not in ("ratio", "accept-length"))


def test_it_asks_for_nothing_outside_and_runs_no_script(drawn):
    _, folder = drawn
    assert what_it_loads(tree(folder / "report.html")) == ["data:,"]
    for file in (folder / "figures").iterdir():
        assert what_it_loads(tree(file)) == []
        assert "DOCTYPE" not in file.read_text()


def test_the_same_profile_gives_the_same_bytes_whatever_a_users_matplotlibrc_says(drawn, tmp_path):
    _, folder = drawn
    (tmp_path / "matplotlibrc").write_text(
        "svg.fonttype: path\nxtick.direction: in\naxes.labelsize: 30\n"
    )
    out = tmp_path / "out"
    again = process("report", folder, "--out", out, env={"MATPLOTLIBRC": str(tmp_path)})
    assert again.returncode == 0, again.stderr
    files = [path.relative_to(out) for path in out.rglob("*") if path.is_file()]
    assert len(files) == 1 + len(EVERY)
    for file in files:
        assert (out / file).read_bytes() == (folder / file).read_bytes()


def test_names_from_anywhere_are_text(tmp_path):
    arms = (HOSTILE, "$x^2$ & [red]", "\x1b[31mred\x00")
    told = Fingerprint(
        model='<img src="http://evil/x" onerror="y">', settings={HOSTILE: "</style>"}
    )
    saved(tmp_path, profile(arms=arms, levels=(4, 8), fingerprint=told))
    result = report(tmp_path)
    assert result.exit_code == 0, result.output
    page = tree(tmp_path / "report.html")
    assert what_it_loads(page) == ["data:,"]
    head = cells(next(page.iter(f"{HTML}table")))[0]
    assert f"{HOSTILE} tok/s" in head
    assert "$x^2$ & [red] tok/s" in head
    assert "\ufffd[31mred\ufffd tok/s" in head
    assert 'src="http://evil/x" onerror' in text_of(page)
    for file in (tmp_path / "figures").iterdir():
        svg = tree(file)
        assert what_it_loads(svg) == []
        assert HOSTILE in [text_of(text) for text in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", names())
def test_every_profile_that_is_shipped_is_drawn_with_what_it_has(name, tmp_path):
    assert report(name, "--out", tmp_path).exit_code == 0
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {
        "throughput.svg",
        "ratio.svg",
    }
    page = tree(tmp_path / "report.html")
    rows = cells(next(page.iter(f"{HTML}table")))[1:]
    levels = shipped(name).levels
    assert [float(row[1]) for row in rows] == pytest.approx(
        [level.arms["spec"].tok_s for level in levels], rel=1e-3
    )
    said = text_of(page)
    missing = said.partition("Not measured, so not drawn: ")[2].partition(". ")[0]
    assert [word in missing for word in ("TTFT", "TPOT", "E2E", "One user", "Accept")] == [True] * 5
    assert "single run" in said


@pytest.mark.parametrize(
    "levels", [LEVELS, (1, 2, 3, 4, 6, 8, 12, 16, 20, 22, 24, 28, 32, 48, 64, 128, 250, 256), (7,)]
)
def test_levels_have_a_tick_each_and_labels_that_do_not_run_into_each_other(levels, tmp_path):
    saved(tmp_path, profile(levels=levels))
    assert report(tmp_path).exit_code == 0
    svg = tree(tmp_path / "figures" / "ttft.svg")
    ticks = [g for g in svg.iter(f"{SVG}g") if "-xtick_" in g.get("id", "")]
    assert len(ticks) == len(levels)
    labels = sorted((x, label) for label, (x, _) in axis(svg, "x").items())
    shown = [int(label) for _, label in labels]
    assert set(shown) <= set(levels)
    assert (shown[0], shown[-1]) == (levels[0], levels[-1])
    assert levels != LEVELS or tuple(shown) == LEVELS
    # A digit of this font is 0.64 of its size wide.
    for (x, label), (other, following) in pairwise(labels):
        assert other - x > 0.64 * 9.5 * (len(label) + len(following)) / 2


def test_other_lengths_have_a_section_and_figures_of_their_own(tmp_path):
    made = profile(contexts=(1000, 8000))
    saved(tmp_path, made)
    assert report(tmp_path).exit_code == 0
    other = made.also[0].context
    page = tree(tmp_path / "report.html")
    (section,) = [
        s for s in page.iter(f"{HTML}section") if s.get("id", "").startswith("measured-2")
    ]
    assert headline(made.also[0]) in text_of(section)
    assert len(list(section.iter(f"{HTML}figure"))) == len(EVERY)
    links = {link.get("href") for link in page.iter(f"{HTML}a")}
    assert links == {f"#{section.get('id')}"}
    stems = {file.stem for file in (tmp_path / "figures").iterdir()}
    assert stems == {*EVERY, *(f"{name}-2-context-{other}-tokens-512" for name in EVERY)}
    saved(tmp_path, profile())
    (tmp_path / "figures" / "mine.svg").write_text("<svg/>")
    assert report(tmp_path).exit_code == 0
    left = {file.stem for file in (tmp_path / "figures").iterdir()}
    assert left == {*EVERY, "mine"}, "pictures of the earlier report"


def test_accept_lengths_by_class_are_told_from_the_break_even_one(drawn):
    made, folder = drawn
    *_, table = tree(folder / "report.html").iter(f"{HTML}table")
    rows = {row[0]: row[1:] for row in cells(table)}
    needed = [level.arms["spec"].break_even_accept_length for level in made.levels]
    assert [float(text) for text in rows["needed to break even"]] == pytest.approx(needed, rel=5e-3)
    assert [text.endswith("+") for text in rows["code"]] == [length < 3.0 for length in needed]
    assert len({text.endswith("+") for text in rows["code"]}) == 2


def test_rates_of_arrivals_have_a_table(tmp_path):
    arms = {
        "spec": ArmRate(runs=(0,), saturated="its queue grows"),
        "plain": ArmRate(runs=(0,), requests=40, in_flight=3.25),
    }
    loop = OpenLoop(rates=(Rate(rate=2.0, arms=arms),))
    saved(tmp_path, replace(profile(), open_loop=(loop,)))
    assert report(tmp_path).exit_code == 0
    page = tree(tmp_path / "report.html")
    (section,) = [s for s in page.iter(f"{HTML}section") if s.get("id") == "open-loop"]
    _, spec, plain = cells(next(section.iter(f"{HTML}table")))
    assert spec[:3] == ["2", "spec", "saturated"]
    assert plain[1:3] == ["plain", "3.25"]
    assert "its queue grows" in text_of(section)


def test_a_folder_without_a_profile_and_one_that_cannot_be_written_are_refused(tmp_path):
    empty = report(tmp_path)
    assert empty.exit_code == 2
    assert "there is no profile.json in it" in empty.output
    assert report("nowhere").exit_code == 2
    (tmp_path / "file").write_text("")
    assert report("reference", "--out", tmp_path / "file").exit_code == 2
    below = process("report", "reference", "--out", tmp_path / "file" / "below")
    assert below.returncode == 1
    assert below.stderr.startswith(f"Error: {tmp_path / 'file' / 'below'}")
    assert len(below.stderr.splitlines()) == 1


def test_a_name_writes_to_a_folder_of_that_name_again_and_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report("reference").output == "Report: reference/report.html\n"
    assert report("reference").exit_code == 0


INSTALL = "pip install 'specgate[bench]', or from a clone: pip install '.[bench]'"


@pytest.fixture
def without_the_extra(tmp_path):
    """The environment of an installation that has no matplotlib."""
    hidden = tmp_path / "hidden" / "matplotlib"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('no', name='matplotlib')")
    return {"PYTHONPATH": str(hidden.parent)}


def test_without_the_extra_the_report_says_what_it_needs(without_the_extra, tmp_path):
    result = process("report", "reference", "--out", tmp_path, env=without_the_extra)
    assert result.returncode == 1
    assert result.stderr == f"Error: the report needs {INSTALL}\n"
    assert not (tmp_path / "report.html").exists()


async def bench(out, env=None):
    async with pair(time_scale=20) as sims:
        urls = ("--spec-url", sims[Lane.SPEC].url, "--plain-url", sims[Lane.PLAIN].url)
        few = ("--concurrency", "4,8", "--max-tokens", "16", "--repeats", "2")
        words = ("bench", *urls, *few, "--requests-per-level", "8", "--out", str(out))
        return await anyio.to_thread.run_sync(lambda: process(*words, env=env))


async def test_a_bench_ends_with_its_report(tmp_path):
    result = await bench(tmp_path)
    assert result.returncode in (0, 3), result.stderr
    assert f"Report: {tmp_path / 'report.html'}" in result.stdout
    said = next(text_of(p) for p in tree(tmp_path / "report.html").iter(f"{HTML}p"))
    assert said in result.stdout
    stems = {file.stem for file in (tmp_path / "figures").iterdir()}
    assert stems >= {"throughput", "ratio", "ttft", "tpot", "e2e", "per-user"}


async def test_a_bench_without_the_extra_says_so_in_a_line(without_the_extra, tmp_path):
    out = tmp_path / "out"
    result = await bench(out, env=without_the_extra)
    assert result.returncode in (0, 3), result.stderr
    assert json.loads((out / "profile.json").read_text())["levels"]
    assert result.stdout.splitlines()[-1] == f"No report: the report needs {INSTALL}"
    assert not (out / "report.html").exists()


def test_nothing_else_loads_the_drawing_libraries():
    code = (
        "import sys\n"
        "import specgate.server, specgate.wiring, specgate.cli.serve, specgate.cli.bench\n"
        "import specgate.cli.report, specgate.cli.profile, specgate.cli.verdict\n"
        "print(sorted({'matplotlib', 'jinja2', 'numpy'} & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"

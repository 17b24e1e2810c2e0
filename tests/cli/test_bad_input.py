"""Whatever a command is given, it answers with a line and a status, and never with a traceback."""

import contextlib
import gzip
import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from specgate.cli.main import main
from tests.docs.cli_page import commands

CROSSES = "k26-int4-8xrtxpro6000-vllm-ctx10k"
NOBODY = "http://127.0.0.1:9"
DEEP = "[" * 100_000
NO_TEXT = "\udcff"
"""A byte that is no UTF-8, as Python passes it on."""

FILES = {
    "one-letter": b"x",
    "empty": b"",
    "bytes": bytes(range(256)) * 4,
    "list.json": b"[]",
    "deep.json": DEEP.encode(),
    "nan.json": b'{"schema":"specgate-profile/1","verdict":{"shape":"crosses","crossover":NaN}}',
    "inf.json": b'{"schema":"specgate-profile/1","verdict":{"shape":"crosses","crossover":1e999}}',
    "names.csv": b"a,b\n",
    "head.csv": b"concurrency,spec,plain\n",
    "below.csv": b"concurrency,spec,plain\n-1,2,3\n",
    "null.csv": b"concurrency,spec,plain\n1,\0,3\n",
    "cut.gz": gzip.compress(b"TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n")[:-6],
    "one.jsonl": b'{"timestamp": 1, "prompt_tokens": 5, "output_tokens": 5}\n',
    "wrong.jsonl": b'{"timestamp": NaN, "prompt_tokens": -5, "output_tokens": 1e400}\n',
    "record/plan.json": b"garbage\n",
    "record/cells.jsonl": DEEP.encode(),
}
PLACES = (*FILES, "folder", "nowhere", "", NO_TEXT, os.devnull)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    for name, data in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)


def given(*words: str) -> Result:
    """What a command says to it; it must have been a line and a status."""
    done = CliRunner().invoke(main, words)
    assert isinstance(done.exception, SystemExit | None), (words, done.exception)
    assert "Traceback" not in done.output
    assert done.exit_code in (0, 1, 2, 3, 4)
    assert done.exit_code == 0 or done.stderr.strip() or done.stdout.strip()
    return done


def refused(*words: str) -> None:
    done = given(*words)
    assert done.exit_code in (1, 2, 4), (words, done.output)
    assert done.stderr.strip(), words


@pytest.mark.parametrize(
    "words",
    [
        ("verdict",),
        ("report",),
        ("profile", "import"),
        ("replay", "--profile"),
        ("replay", "--trace"),
    ],
)
def test_an_empty_name_is_said_to_be_one(words: tuple[str, ...]):
    done = given(*words, "")
    assert done.exit_code == 2
    assert "an empty name: give a" in done.stderr.splitlines()[-1]


AS_PROFILE = (
    ("profile", "show"),
    ("profile", "merge"),
    ("profile", "import"),
    ("profile", "import", "--format", "markdown"),
    ("verdict",),
    ("export", "--to", "vllm"),
    ("report",),
    ("replay", "--profile"),
)


@pytest.mark.parametrize("words", AS_PROFILE, ids=" ".join)
def test_files_that_are_no_profile(words):
    for place in PLACES:
        refused(*words, place)


@pytest.mark.parametrize("kind", ["auto", "sglang", "vllm"])
def test_files_that_are_no_results(kind):
    for place in PLACES:
        refused("profile", "import", f"spec={place}", "--format", kind)


def test_files_that_are_no_traffic():
    for place in PLACES:
        refused("replay", "--profile", CROSSES, "--requests", "20", "--trace", place)


def test_files_that_are_no_prompts():
    for place in PLACES:
        if place != "":
            refused("bench", "--plain-url", NOBODY, "--out", "new", "--prompts", place)
    assert not Path("new").exists()


ADDRESSES = (
    *("", "x", "http://", "http://[::1", "http://h:99999", "http://u:p@h", "http://h?q"),
    *("http://nowhere.invalid", "http://ü", NO_TEXT),
)


@pytest.mark.parametrize(
    "words", [("doctor",), ("bench", "--plain-url"), ("status", "--url")], ids=" ".join
)
def test_addresses_that_are_none(words):
    for address in ADDRESSES:
        refused(*words, address)


def test_an_arms_address_is_looked_at_too():
    for address in ADDRESSES:
        refused("bench", "--arm", f"plain={address}")


CASES = [
    ("bench", "--plain-url", NOBODY, "--out", "one-letter"),
    ("bench", "--plain-url", NOBODY, "--out", "record", "--resume"),
    ("bench", "--plain-url", NOBODY, "--extra-body", DEEP),
    ("bench", "--plain-url", NOBODY, "--api-key", "two words"),
    ("bench", "--plain-url", NOBODY, "--model", NO_TEXT),
    ("bench", "--plain-url", NOBODY, "--margin", "nan"),
    ("bench", "--plain-url", NOBODY, "--slo", "ttft=nan"),
    ("doctor", NOBODY, "--api-key", "ü"),
    ("doctor", NOBODY, "--profile", "folder"),
    ("doctor", "a", "b", "c"),
    ("export", CROSSES, "--to", "vllm", "--context", "5"),
    ("export", CROSSES, "--to", "vllm", "--steps", "spec"),
    ("report", "reference", "--out", "/dev/null/x"),
    ("report", "folder"),
    ("profile", "merge", CROSSES, "--out", "/nowhere/x"),
    ("profile", "merge", CROSSES, "--out", "folder"),
    ("replay", "--profile", CROSSES, "--requests", "20", "--json", "/nowhere/x"),
    ("replay", "--profile", CROSSES, "--requests", "20", "--json", "folder"),
    ("replay", "--profile", CROSSES, "--requests", "20", "--out", "/dev/null/x"),
    ("replay", "--profile", CROSSES, "--requests", "20", "--burst", "3"),
    ("demo", "--once", "--json", "/nowhere/x"),
    ("demo", "--once", "--json", "folder"),
    ("demo", "--profile", "nowhere"),
    ("demo", "--level-seconds", "nan"),
    ("sim", "--lane", "spec", "--port", "0", "--host", ""),
    ("sim", "--lane", "spec", "--port", "0", "--host", "999.9.9.9"),
    ("sim", "--lane", "spec", "--port", "0", "--faults", f"spec={DEEP}"),
    ("sim", "--lane", "spec", "--port", "0", "--model", NO_TEXT),
    ("completion", "tcsh"),
    (NO_TEXT,),
]


@pytest.mark.parametrize("words", CASES, ids=lambda words: ascii(" ".join(words)[:60]))
def test_what_cannot_be_done_is_refused(words):
    refused(*words)


NASTY = (
    "",
    "x",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "9" * 40,
    "1,,2",
    "a=b",
    DEEP,
    NO_TEXT,
    "ü",
    "\t",
)


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_each_option_takes_or_refuses_any_word(name):
    """Reading alone: what a body does with what it takes is above."""
    command = dict(commands())[name]
    for param in command.params:
        for word in NASTY:
            words = [word] if isinstance(param, click.Argument) else [param.opts[0], word]
            refusals = (click.ClickException, click.exceptions.Exit)
            with contextlib.suppress(*refusals):
                command.make_context(name, words)


def run(*words: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "specgate", *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


LANES = {"SPECGATE_SPEC_URL": NOBODY, "SPECGATE_PLAIN_URL": NOBODY}


@pytest.mark.parametrize(
    "name",
    ["SPECGATE_CONFIG", "SPECGATE_PROFILE", "SPECGATE_API_KEYS_FILE", "SPECGATE_TLS_CERT_FILE"],
)
def test_a_gate_whose_files_are_wrong(name):
    for place in ("folder", "bytes", "empty", "nowhere"):
        for command in ("serve", "config"):
            if (name, command) != ("SPECGATE_TLS_CERT_FILE", "config"):
                code, said = run(command, **LANES, **{name: place})
                assert code == 2, (command, place, said)
                assert name in said or place in said


def test_ports_that_are_taken():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        for words, variables in (
            (("sim", "--lane", "spec", "--port", port), {}),
            (("demo", "--once", "--port", port), {}),
            (("serve",), {**LANES, "SPECGATE_PORT": port}),
        ):
            code, said = run(*words, **variables)
            assert code == 1
            assert port in said


def test_a_reader_that_leaves_is_no_failure_to_tell_of():
    shown = f"{sys.executable} -m specgate profile show {CROSSES} --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", shown], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""


def test_a_disk_that_is_full():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    for words in (
        ("profile", "merge", CROSSES, "--out", "/dev/full"),
        ("replay", "--profile", CROSSES, "--requests", "20", "--json", "/dev/full"),
    ):
        done = given(*words)
        assert done.exit_code == 1
        assert "space" in done.stderr


def test_every_command_is_looked_at():
    tried = {words[0] for words in itertools.chain(CASES, AS_PROFILE)} | {
        "serve",
        "config",
        "status",
    }
    assert {name.partition(" ")[0] for name, _ in commands()} <= tried

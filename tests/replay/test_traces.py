"""Recorded traffic as people have it, and what is said of what cannot be read."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specgate
from specgate.replay.shipped import TRACES, trace
from specgate.replay.traces import read_trace
from specgate.replay.traffic import Arrival, TrafficError

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
WANTED = [(0.0, 374, 44), (pytest.approx(4.314579, abs=1e-6), 396, 109)]


def read(folder, text, *, packed=False):
    path = folder / "trace"
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    return read_trace(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        AZURE,
        "\ufeff" + AZURE,
        AZURE.replace("\n", "\r\n"),
        AZURE.replace("0,", "0+00:00,"),
        AZURE.replace("16 ", "16T").replace("900,", "900Z,"),
        AZURE.replace("44", "44.0") + "\n",
        AZURE + "2023-11-16 18:15:51,10,0\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,374,44,418,Conversation log\n9.314579,GPT-4,396,109,505,API log\n",
        '{"timestamp": 5, "prompt_tokens": 374, "output_tokens": 44, "more": null}\n\n'
        '{"timestamp": "9.314579", "prompt_tokens": 396, "output_tokens": 109}\n',
    ],
    ids=["azure", "bom", "crlf", "zone", "z", "floats", "no-output", "burstgpt", "jsonl"],
)
def test_forms(tmp_path, text, packed):
    assert read(tmp_path, text, packed=packed) == WANTED


def test_a_time_without_a_zone_is_utc(tmp_path, monkeypatch):
    """Else the hour that a clock leaves out in spring would be a gap of an hour."""
    monkeypatch.setenv("TZ", "America/New_York")
    mixed = AZURE.replace("18:15:50.9951690", "18:15:50.9951690+00:00")
    assert read(tmp_path, mixed) == WANTED


def test_it_is_put_in_order(tmp_path):
    head, one, other = AZURE.splitlines()
    assert read(tmp_path, "\n".join([head, other, one])) == WANTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n" + AZURE, "empty, or its first line"),
        ("a,b,c\n1,2,3\n", "line 1: no column timestamp, only 'a, b, c'"),
        ("TIMESTAMP,ContextTokens\n1,2\n", "no column generatedtokens or responsetokens"),
        (AZURE + "2023-11-16,5\n", "line 4: too few columns"),
        (AZURE + "2023-11-16,5,x\n", "line 4: GeneratedTokens: 'x' is no number of tokens"),
        (AZURE + "2023-11-16,-5,1\n", "line 4: ContextTokens: '-5' is no number of tokens"),
        (AZURE + "2023-11-16,5,1e99\n", "line 4: GeneratedTokens: '1e99'"),
        (AZURE + "2023-11-16,5,nan\n", "line 4: GeneratedTokens: 'nan'"),
        (AZURE + "soon,5,1\n", "line 4: TIMESTAMP: 'soon' is no time"),
        (AZURE + "inf,5,1\n", "line 4: TIMESTAMP: 'inf' is no time"),
        (AZURE + '"a\x00"' + "x" * 200_000 + ",5,1\n", "line 4: "),
        (AZURE.replace("44", "0"), "fewer than two requests with output"),
        ('{"timestamp": 1}\n', "line 1: must be an object with timestamp, prompt_tokens"),
        ('{"a": ' + "[" * 100_000, "line 1: must be an object"),
        ('{"timestamp": 1, "prompt_tokens": 2, "output_tokens": 3}\n[]\n', "line 2: must be"),
        (b"\xff\xfe\x00\x01\n", "neither text nor gzip"),
        (gzip.compress(AZURE.encode(), mtime=0)[:-20], "neither text nor gzip"),
        (gzip.compress(AZURE.encode(), mtime=0)[:12] + b"\x00" * 30, "neither text nor gzip"),
    ],
)
def test_what_cannot_be_read_is_one_short_line(tmp_path, text, said):
    with pytest.raises(TrafficError) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.binary(max_size=60),
    st.sampled_from([b"", AZURE.encode(), b"\x1f\x8b", b'{"timestamp":', AZURE.encode()[:60]]),
)
def test_no_file_breaks_it(tmp_path, raw, before):
    try:
        found = read(tmp_path, before + raw)
    except TrafficError:
        return
    assert len(found) >= 2
    assert found[0].at == 0.0


@given(
    st.lists(
        st.builds(Arrival, st.floats(0, 1e6), st.integers(0, 10**6), st.integers(1, 10**6)),
        min_size=2,
        max_size=20,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_written_and_read_again_it_is_the_same(tmp_path, arrivals):
    keys = ("timestamp", "prompt_tokens", "output_tokens")
    lines = [json.dumps(dict(zip(keys, each, strict=True))) for each in arrivals]
    start = min(each.at for each in arrivals)
    wanted = sorted(each._replace(at=each.at - start) for each in arrivals)
    assert read(tmp_path, "\n".join(lines)) == wanted


def test_the_shipped_trace_and_its_licence():
    found = trace()
    assert len(found) == 19_366
    assert sum(each.output_tokens for each in found) == 4_088_665
    assert 3500 < found[-1].at < 3600
    readme = Path(specgate.__file__).parent / "replay" / "data" / "README.md"
    for file, said in TRACES.values():
        assert "CC BY 4.0" in said
        assert f"`{file}`" in readme.read_text()
    assert "CC BY 4.0" in readme.read_text()

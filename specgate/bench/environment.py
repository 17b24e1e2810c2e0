"""What the engines are, asked before anything is measured; nothing secret is kept.

SGLang: /server_info. vLLM: /version, and what it says in /v1/models. llama.cpp: /props.
"""

import asyncio
import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2

from specgate import __version__
from specgate.bench.asking import Arm
from specgate.bench.faults import Misused
from specgate.engines.base import Engine, engine_of

TIMEOUT_S = 10.0
FLAGS = (
    *("max_running_requests", "max_total_tokens", "max_total_num_tokens", "mem_fraction_static"),
    *("cuda_graph_max_bs", "cuda_graph_max_bs_decode", "cuda_graph_bs", "disable_cuda_graph"),
    *("context_length", "dtype", "quantization", "kv_cache_dtype", "tp_size", "dp_size"),
    *("attention_backend", "speculative_algorithm", "speculative_draft_model_path"),
    *("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
    *("speculative_adaptive", "chunked_prefill_size", "disable_radix_cache", "enable_metrics"),
    *("enable_dp_attention", "enable_multi_layer_eagle", "enable_two_batch_overlap"),
    *("enable_pdmux", "enable_lora"),
)
"""Of SGLang's settings, those that a crossover depends on."""

_SECRET = re.compile(
    r"(^|_)(key|keys|secret|password|passwd|hf_token|auth|credential)s?(_|$)", re.I
)
_HIDING_OPTION = r"--?(?:[\w-]*[-_])?(?:keys?|password|passwd|secret|token|auth|credentials?)"
_OPTION = re.compile(_HIDING_OPTION + r"""(?:=|\s+)("[^"]*"|'[^']*'|\S+)""", re.I)
"""An option of a command line that takes a secret, with its value; `--max-tokens 5` is none."""
_BARE_OPTION = re.compile(_HIDING_OPTION, re.I)


async def look(arm: Arm, http: httpx2.AsyncClient) -> dict[str, Any]:
    """What one arm says of itself; what it does not know is left out. Raises nothing."""
    models = await _get(http, arm, "/v1/models")
    info = await _get(http, arm, "/server_info") or await _get(http, arm, "/get_server_info")
    found: dict[str, Any] = {
        "url": without_secrets(arm.url),
        "engine": engine_of(models).value,
        "models": _names(models),
    }
    if isinstance(info, dict):
        found["version"] = info.get("version")
        found["flags"] = {name: info[name] for name in FLAGS if name in info}
        states = info.get("internal_states")
        first = states[0] if isinstance(states, list) and states else {}
        if isinstance(first, dict) and "effective_max_running_requests_per_dp" in first:
            found["flags"]["effective_max_running_requests"] = first[
                "effective_max_running_requests_per_dp"
            ]
        found["server_info"] = redacted(info)
        return found
    if found["engine"] == Engine.VLLM:
        version = await _get(http, arm, "/version")
        found["version"] = version.get("version") if isinstance(version, dict) else None
    if found["engine"] == Engine.LLAMACPP:
        props = await _get(http, arm, "/props")
        if isinstance(props, dict):
            found["version"] = props.get("build_info")
            found["flags"] = {"total_slots": props.get("total_slots")}
    card = _first_card(models)
    if "max_model_len" in card:
        found.setdefault("flags", {})["max_model_len"] = card["max_model_len"]
    return found


def named(arm: Arm, seen: dict[str, Any], wanted: str | None) -> str | None:
    """The model's name to ask an arm for. Raises Misused if it says that it has no such one."""
    names: list[str] = seen["models"]
    if wanted is None:
        return names[0] if names else None
    # llama.cpp serves what it has under any name.
    if names and wanted not in names and seen["engine"] != Engine.LLAMACPP:
        listed = ", ".join(names)
        raise Misused(f"arm {arm.name} at {arm.url} serves {listed}, not --model {wanted}")
    return wanted


def differences(seen: dict[str, dict[str, Any]]) -> list[str]:
    """What makes a comparison of arms doubtful: another model, context or version; a low cap."""
    found = []
    flags = {name: each.get("flags", {}) for name, each in seen.items()}
    told = {name: tuple(each["models"][:1]) for name, each in seen.items() if each["models"]}
    if len(set(told.values())) > 1:
        listed = ", ".join(f"{name} {models[0]}" for name, models in told.items())
        found.append(f"the arms name different models: {listed}")
    for what in ("context_length", "dtype", "quantization", "kv_cache_dtype", "tp_size"):
        values = {name: each[what] for name, each in flags.items() if what in each}
        if len(set(map(str, values.values()))) > 1:
            listed = ", ".join(f"{name} {value}" for name, value in values.items())
            found.append(f"the arms differ in {what}: {listed}")
    return found


def capped(seen: dict[str, dict[str, Any]], highest: int) -> list[str]:
    """Arms whose engine runs fewer requests at once, or has graphs for fewer, than the highest
    level holds in flight."""
    found = []
    for name, each in seen.items():
        flags = each.get("flags", {})
        for flag in ("effective_max_running_requests", "max_running_requests", "total_slots"):
            limit = flags.get(flag)
            if isinstance(limit, int) and limit < highest:
                found.append(
                    f"arm {name} runs at most {limit} requests at once ({flag}): above that level "
                    "it measures its queue"
                )
                break
        graphs = flags.get("cuda_graph_max_bs_decode", flags.get("cuda_graph_max_bs"))
        if isinstance(graphs, int) and graphs < highest:
            found.append(
                f"arm {name} has graphs for batches up to {graphs}: above that level it runs "
                "without them"
            )
    return found


def this_run(argv: Sequence[str], arms: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The environment of one run, for the record."""
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "specgate": __version__,
        "argv": [without_secrets(word) for word in hidden(argv)],
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "arms": arms,
    }


def hidden(argv: Sequence[str]) -> list[str]:
    """A command line without the key in it."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] == "--api-key":
            words.append("***")
        elif word.startswith("--api-key="):
            words.append("--api-key=***")
        else:
            words.append(word)
    return words


def without_secrets(word: str) -> str:
    """An address without user, password and query; any other word as it is."""
    name, equals, rest = word.partition("=")
    if equals and "://" in rest and "://" not in name:
        return f"{name}={without_secrets(rest)}"
    if "://" not in word:
        return word
    parts = urlsplit(word)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def redacted(value: Any) -> Any:
    """Without what is called a key, a password or a secret, at any depth, and without such options'
    values in command lines: SGLang tells its own, `--api-key VALUE` and all."""
    if isinstance(value, dict):
        return {
            name: "***" if _SECRET.search(str(name)) and each else redacted(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        hidden = [False, *(isinstance(each, str) and _bare_option(each) for each in value)]
        return [
            "***" if hide else redacted(each) for each, hide in zip(value, hidden, strict=False)
        ]
    return _OPTION.sub(_masked, value) if isinstance(value, str) else value


def _bare_option(text: str) -> bool:
    """Whether it is an option whose value is the next argument."""
    return _BARE_OPTION.fullmatch(text) is not None


def _masked(option: re.Match[str]) -> str:
    return option.group(0)[: option.start(1) - option.start(0)] + "***"


async def _get(http: httpx2.AsyncClient, arm: Arm, path: str) -> Any:
    """The decoded reply; None for no such route, no JSON or no answer."""
    headers = {"authorization": f"Bearer {arm.api_key}"} if arm.api_key else {}
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reply = await http.get(arm.url.rstrip("/") + path, headers=headers)
        return reply.json() if reply.status_code == 200 else None
    except (httpx2.HTTPError, ValueError, TimeoutError):
        return None


def _names(models: Any) -> list[str]:
    data = models.get("data") if isinstance(models, dict) else None
    cards = data if isinstance(data, list) else []
    return [str(card["id"]) for card in cards if isinstance(card, dict) and "id" in card]


def _first_card(models: Any) -> dict[str, Any]:
    data = models.get("data") if isinstance(models, dict) else None
    return data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}

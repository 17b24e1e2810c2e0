"""What an alternation does to engines, over HTTP or by commands.

Everything raises StepFailedError and nothing else that an engine, a network or a command can
cause. Nothing here has a limit of time: whoever asks sets it.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress

import httpx2

from specgate.control.alternation_command import CommandFailedError, run
from specgate.control.alternation_hands import Found, StepFailedError
from specgate.control.lane_client import lane_client
from specgate.core.alternation import Step
from specgate.core.config import AlternationConfig
from specgate.core.lanes import Lane
from specgate.engines.accepting import accept_length
from specgate.engines.base import MODELS_PATH, READY_PATH, Engine, engine_of
from specgate.engines.loads import LOADS_PATH, InHand, in_hand, told
from specgate.engines.parking import (
    DIES_BUSY,
    LEAST_ACCEPT,
    PARK,
    PING_PATH,
    SLEEPING_PATH,
    UNDO,
    WAKE,
    Call,
    Said,
    is_sleeping,
    makes_sense,
    said,
    trial,
)
from specgate.upstream.base import Origin

LOOK_S = 0.1
"""How often a waking engine is asked whether it is ready."""

ASK_S = 5.0
"""How long an engine may take for a question that costs it nothing."""

CONNECT_S = 2.0
"""A kernel takes a connection at once, however busy its engine is."""

READ_MOST = 1024 * 1024


class Engines:
    """`client`: without a time-out of its own for reading. secrets: masked in what commands say."""

    def __init__(
        self, config: AlternationConfig, client: httpx2.AsyncClient, secrets: Sequence[str] = ()
    ) -> None:
        self._config = config
        self._client = client
        self._secrets = tuple(secrets)
        self._models: dict[str, tuple[Engine, str | None]] = {}
        self._sense: str | None = None
        self._mute: set[str] = set()
        """Engines that were parked and do not show it: an old version that knows no pause."""

    def forget(self) -> None:
        """Other engines are in the lanes."""
        self._models.clear()
        self._mute.clear()
        self._sense = None

    async def look(self, origin: Origin) -> Found:
        """What an engine is now; as far as it can tell."""
        try:
            async with asyncio.timeout(ASK_S):
                found = await self._look(origin)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return Found.GONE
        except (httpx2.HTTPError, TimeoutError):
            return Found.UNREADY
        return Found.ASLEEP if found is Found.AWAKE and origin.url in self._mute else found

    async def in_hand(self, origin: Origin) -> int:
        """Sequences that the engine has, from whomever. Of one that does not tell 0, unless to park
        it busy would kill it: that is a failure."""
        engine, _ = await self._name(origin, Step.IDLE)
        try:
            async with asyncio.timeout(ASK_S):
                found = await self._in_hand(origin, engine)
        except (httpx2.HTTPError, TimeoutError) as error:
            why = f"it does not say what it has in hand: {_words(error)}"
            raise StepFailedError(Step.IDLE, why) from error
        if found is not None:
            return found.total
        if origin.lane not in self._config.park and engine in DIES_BUSY:
            why = f"it does not say whether it is idle ({LOADS_PATH}, /metrics): busy it would die"
            raise StepFailedError(Step.IDLE, why)
        return 0

    async def park(self, origin: Origin, *, waking: bool = False) -> None:
        """Make it give its memory back. Without a command nothing if it has done so or is gone.
        waking: it may be about to take it again; engines do one such call after the other."""
        command = self._config.park.get(origin.lane)
        if command is not None:
            await self._run(command, Step.PARK)
            return
        found = await self.look(origin)
        if found is Found.GONE or (found is Found.ASLEEP and not waking):
            return
        engine, _ = await self._name(origin, Step.PARK)
        calls = PARK.get(engine)
        if calls is None:
            raise _no_calls(Step.PARK, origin.lane, engine)
        try:
            for call in calls:
                done = await self._post(origin, call, Step.PARK)
                if done.status_code == 404:
                    self._mute.add(origin.url)
        except BaseException:
            # Half parked it would neither serve nor give its memory back.
            self._mute.discard(origin.url)
            if engine in UNDO and await self.look(origin) is Found.ASLEEP:
                with suppress(StepFailedError, TimeoutError):
                    async with asyncio.timeout(ASK_S):
                        await self._post(origin, UNDO[engine], Step.PARK)
            raise

    async def wake(self, origin: Origin) -> None:
        """Make it serve: it is ready then. Nothing if it is already: to resume an engine that was
        not released kills it, and a server that is started twice takes its memory twice."""
        found = await self.look(origin)
        self._mute.discard(origin.url)
        command = self._config.wake.get(origin.lane)
        if found is Found.AWAKE:
            return
        if command is not None:
            await self._run(command, Step.WAKE)
        else:
            await self._call_up(origin, found)
        while (found := await self.look(origin)) is not Found.AWAKE:
            if command is None and found is Found.GONE:
                raise StepFailedError(Step.WAKE, "it takes no connection any more")
            await asyncio.sleep(LOOK_S)

    async def check(self, origin: Origin) -> None:
        """Ask for one short answer, and look at it; in the spec lane at its accept length too."""
        engine, model = await self._name(origin, Step.CHECK)
        before = await self._page(origin)
        asked = trial(engine, model)
        answer = await self._answer(origin, engine, Call(asked.path, asked.body))
        if not makes_sense(answer.text, self._sense):
            raise StepFailedError(Step.CHECK, f"it answers nonsense: {answer.text[:40]!r}")
        if origin.lane is Lane.SPEC:
            length = answer.accept_length
            if length is None and before is not None:
                after = await self._page(origin)
                length = None if after is None else accept_length(before, after)
            if length is not None and length < LEAST_ACCEPT:
                why = f"its accept length is stuck at {length:.2f}: no draft is accepted"
                raise StepFailedError(Step.ACCEPT, why)
        self._sense = answer.text

    async def _look(self, origin: Origin) -> Found:
        response = await self._get(origin, READY_PATH)
        if response.status_code == 404:
            return await self._look_without_ready(origin)
        if response.status_code < 500:
            return Found.AWAKE
        # SGLang while it is paused; while it starts or stops, both are 503.
        ping = await self._get(origin, PING_PATH)
        return Found.ASLEEP if ping.is_success else Found.UNREADY

    async def _look_without_ready(self, origin: Origin) -> Found:
        response = await self._get(origin, SLEEPING_PATH)
        if response.is_success and is_sleeping(response.text):
            return Found.ASLEEP
        models = await self._get(origin, MODELS_PATH)
        return Found.UNREADY if models.status_code >= 500 else Found.AWAKE

    async def _call_up(self, origin: Origin, found: Found) -> None:
        if found is not Found.ASLEEP:
            what = "takes no connection" if found is Found.GONE else "is neither ready nor asleep"
            raise StepFailedError(Step.WAKE, f"it {what}")
        engine, _ = await self._name(origin, Step.WAKE)
        calls = WAKE.get(engine)
        if calls is None:
            raise _no_calls(Step.WAKE, origin.lane, engine)
        for call in calls:
            await self._post(origin, call, Step.WAKE)

    async def _name(self, origin: Origin, step: Step) -> tuple[Engine, str | None]:
        """The engine, and the name of its model."""
        known = self._models.get(origin.url)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(ASK_S):
                response = await self._get(origin, MODELS_PATH)
            models = response.json() if response.is_success else None
        except (httpx2.HTTPError, TimeoutError) as error:
            raise StepFailedError(step, f"{MODELS_PATH}: {_words(error)}") from error
        except (ValueError, RecursionError):
            models = None
        found = engine_of(models), _model(models)
        if found[0] is not Engine.UNKNOWN:
            self._models[origin.url] = found
        return found

    async def _answer(self, origin: Origin, engine: Engine, call: Call) -> Said:
        response = await self._post(origin, call, Step.CHECK)
        answer = said(engine, response.text)
        if answer is None:
            raise StepFailedError(Step.CHECK, f"{call.path} answered without a text")
        return answer

    async def _in_hand(self, origin: Origin, engine: Engine) -> InHand | None:
        if engine is Engine.SGLANG:
            response = await self._get(origin, LOADS_PATH)
            if response.is_success:
                return told(response.text)
        page = await self._page(origin)
        return None if page is None else in_hand(engine, page)

    async def _page(self, origin: Origin) -> str | None:
        try:
            async with asyncio.timeout(ASK_S):
                response = await self._get(origin, "/metrics")
        except (httpx2.HTTPError, TimeoutError):
            return None
        return response.text if response.is_success else None

    async def _run(self, command: tuple[str, ...], step: Step) -> None:
        try:
            await run(command, secrets=self._secrets)
        except CommandFailedError as error:
            raise StepFailedError(step, str(error)) from error

    async def _get(self, origin: Origin, path: str) -> httpx2.Response:
        return await self._ask("GET", origin, Call(path))

    async def _post(self, origin: Origin, call: Call, step: Step) -> httpx2.Response:
        try:
            response = await self._ask("POST", origin, call)
        except httpx2.HTTPError as error:
            raise StepFailedError(step, f"{call.path}: {_words(error)}") from error
        missing = call.optional and response.status_code == 404
        if not response.is_success and not missing:
            raise StepFailedError(step, f"{call.path} answered {response.status_code}")
        return response

    async def _ask(self, method: str, origin: Origin, call: Call) -> httpx2.Response:
        body = None if call.body is None else dict(call.body)
        request = self._client.stream(
            method, origin.url + call.path, headers=origin.credentials, json=body
        )
        async with request as response:
            parts = bytearray()
            async for part in response.aiter_bytes():
                parts += part
                if len(parts) > READ_MOST:
                    raise httpx2.ReadError(f"more than {READ_MOST} bytes")
        return httpx2.Response(response.status_code, content=bytes(parts))


def patient_client(tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """The client for engines that may take minutes."""
    return lane_client(httpx2.Timeout(None, connect=CONNECT_S), tls)


def _model(models: object) -> str | None:
    try:
        name = models["data"][0]["id"]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return None
    return name if isinstance(name, str) else None


def _no_calls(step: Step, lane: Lane, engine: Engine) -> StepFailedError:
    name = f"SPECGATE_{lane}_{step}".upper()
    what = "its engine is not known" if engine is Engine.UNKNOWN else f"{engine} has no call for it"
    return StepFailedError(step, f"{what}: set {name} to a command")


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__

"""The composition root: the only place that names concrete classes."""

import asyncio
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import uvicorn
from fastapi import FastAPI

from specgate import __version__
from specgate.admin.api import build_app
from specgate.admin.metrics_port import MetricsPort, listening, log_where, metrics_port
from specgate.admin.reload import Reloader
from specgate.admin.seen import Seen
from specgate.admin.stream import EVERY_S as STATE_EVERY_S
from specgate.admin.stream import Feed
from specgate.control.admission_queue import AdmissionQueue
from specgate.control.alternation import EVERY_S as ALTERNATE_EVERY_S
from specgate.control.alternation import SETTLE_S, Alternator
from specgate.control.alternation_engines import Engines, patient_client
from specgate.control.gate import Gate
from specgate.control.loops import Loop, running
from specgate.control.prober import Prober, probe_client
from specgate.control.prompting import Prompting
from specgate.control.scraper import Scraper
from specgate.control.trials import EVERY_S as TRIALS_EVERY_S
from specgate.control.trials import Trials
from specgate.core.events import Observer, broadcast
from specgate.core.lanes import Lane
from specgate.ledger.local import LocalLedger
from specgate.proxy.app import ProxyApp
from specgate.proxy.forward import Forwarder
from specgate.proxy.keys import Keyring
from specgate.proxy.limits import Limits
from specgate.proxy.protocol import GateProtocol, ServerState
from specgate.settings import Loaded, Settings, load
from specgate.settings.certificates import ClientsTls, clients_tls, lanes_tls
from specgate.telemetry.history import EVERY_S as POINT_EVERY_S
from specgate.telemetry.history import History
from specgate.telemetry.lines import LineWriter
from specgate.telemetry.logs import Logs, listener_failed
from specgate.telemetry.metrics import Metrics
from specgate.telemetry.switches import Switches
from specgate.telemetry.tracing import Tracing, exporting, no_spans
from specgate.upstream.base import Origin, Upstream
from specgate.upstream.httpx import HttpxUpstream
from specgate.upstream.pool import PooledUpstream
from specgate.upstream.tcp import keep_alive

TICK_S = 0.25
"""How often the policy is applied between requests: well below any sensible smoothing."""

FRESH_SCRAPES = 3
"""An engine's word on its load holds for so many scrapes' time."""

KEEP_ALIVE_S = 75
"""An idle client connection's life: longer than the balancers' in front (nginx 75, ALB 60)."""


GRACE_S = 5
"""How long calls of the gate's own may take to end when all else has (`proxy.drain`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A gate, ready to be served."""

    app: FastAPI
    gate: Gate
    forwarder: Forwarder
    reloader: Reloader
    feed: Feed
    keyring: Keyring
    tls: ClientsTls | None
    metrics_port: MetricsPort | None
    settings: Settings


def build(
    settings: Settings,
    *,
    reload: Callable[[], Loaded] = load,
    observers: tuple[Observer, ...] = (),
    lines: LineWriter | None = None,
) -> Service:
    """Join the rooms. `observers` listen besides metrics and logs; `lines`: see `Logs`."""
    tracing = _tracing(settings)
    # It tells the time of a request's end, so it hears of it first.
    first: list[Observer] = [] if tracing is None else [tracing]
    listeners: list[Observer] = [*first, Logs(lines, settings.log_sample), *observers]
    observe = broadcast(listeners, listener_failed)
    origins = {
        Lane.SPEC: Origin.of(Lane.SPEC, settings.spec_url, settings.authorization(Lane.SPEC)),
        Lane.PLAIN: Origin.of(Lane.PLAIN, settings.plain_url, settings.authorization(Lane.PLAIN)),
    }
    gate = Gate(
        policy=settings.policy,
        origins=origins,
        ledger=LocalLedger(),
        observe=observe,
        clock=time.monotonic,
        fresh_s=FRESH_SCRAPES * (settings.scrape_interval_s or 0.0),
        rules=settings.by_request,
    )
    scraper = Scraper(gate=gate, clock=time.monotonic)
    metrics = Metrics(
        view=gate.view,
        engines=lambda: scraper.latest,
        disagreement=gate.disagreement,
        clock=time.monotonic,
        version=__version__,
        spans=no_spans if tracing is None else tracing.counts,
    )
    history = History(
        view=gate.view, engines=lambda: scraper.latest, clock=time.monotonic, wall=time.time
    )
    feed = Feed(lambda: seen.status())
    switches = Switches(view=gate.view, wall=time.time, tell=feed.switched)
    seen = Seen(
        view=gate.view, wall=time.time, history=history, switches=switches, version=__version__
    )
    listeners += [metrics, history, switches]
    listeners.append(Prompting(gate))
    trials = None
    if settings.switchback is not None:
        trials = Trials(gate, settings.switchback, time.monotonic, seed=_seed())
        listeners.append(trials)
    tls = lanes_tls(settings)
    for_clients = clients_tls(settings)
    keyring = Keyring(settings.client_keys)
    upstream: Upstream
    if settings.upstream == "httpx":
        upstream = HttpxUpstream(connect_timeout_s=settings.connect_timeout_s, tls=tls)
    else:
        upstream = PooledUpstream(connect_timeout_s=settings.connect_timeout_s, tls=tls)
    queue = AdmissionQueue(gate, settings.admission)
    forwarder = Forwarder(
        gate=gate,
        queue=queue,
        upstream=upstream,
        config=settings.proxy,
        # By then the lanes have been probed again.
        retry_after_s=max(1, round(settings.probe_interval_s)),
        observe=observe,
        clock=time.monotonic,
        new_id=_ids(),
        traced=tracing is not None,
    )
    reloader = Reloader(
        gate=gate,
        queue=queue,
        keyring=keyring,
        tls=for_clients,
        settings=settings,
        load=reload,
        observe=observe,
    )
    own_port = None
    if settings.metrics_port is not None:
        own_port = metrics_port(
            settings.metrics_host or settings.host,
            settings.metrics_port,
            gate=gate,
            scrape=metrics.scrape,
            forwarder=forwarder,
            limits=_limits(settings),
        )

    alternator, patient = None, None
    if settings.alternation is not None:
        patient = patient_client(tls)
        alternator = Alternator(
            gate=gate,
            queue=queue,
            hands=Engines(settings.alternation, patient, settings.secrets),
            config=settings.alternation,
            observe=observe,
            clock=time.monotonic,
        )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with probe_client(tls) as client, exporting(tracing):
            prober = Prober(gate=gate, client=client, observe=observe, clock=time.monotonic)
            loops = [
                Loop(
                    name=f"probe-{lane}",
                    every_s=settings.probe_interval_s,
                    turn=partial(prober.probe, lane),
                )
                for lane in Lane
            ]
            if settings.scrape_interval_s is not None:
                loops += [
                    Loop(
                        name=f"scrape-{lane}",
                        every_s=settings.scrape_interval_s,
                        turn=partial(scraper.scrape, client, lane),
                    )
                    for lane in Lane
                ]
            loops += [
                Loop(name="tick", every_s=TICK_S, turn=_turn(gate.tick)),
                *_trying(trials),
                *_alternating(alternator),
                Loop(name="history", every_s=POINT_EVERY_S, turn=_turn(history.sample)),
                Loop(name="events", every_s=STATE_EVERY_S, turn=_turn(feed.tell_state)),
            ]
            try:
                async with running(loops, observe):
                    yield
                    if alternator is not None:
                        await alternator.settle(SETTLE_S)
            finally:
                if patient is not None:
                    await patient.aclose()
                await upstream.aclose()

    token = settings.admin_token
    app = build_app(
        gate=gate,
        seen=seen,
        feed=feed,
        proxy=ProxyApp(forwarder, keyring),
        scrape=metrics.scrape,
        reloader=reloader,
        observe=observe,
        admin_token=None if token is None else token.get_secret_value(),
        lifespan=lifespan,
        with_metrics=own_port is None,
    )
    return Service(
        app=app,
        gate=gate,
        forwarder=forwarder,
        reloader=reloader,
        feed=feed,
        keyring=keyring,
        tls=for_clients,
        metrics_port=own_port,
        settings=settings,
    )


def uvicorn_config(service: Service, *, portable: bool = False) -> uvicorn.Config:
    """How uvicorn serves it: no header, log line, limit or time-out of its own on the data path.

    portable: on uvicorn's own connections, through ASGI alone, as any other server would.
    """
    settings, tls = service.settings, service.tls
    return uvicorn.Config(
        service.app,
        host=settings.host,
        port=settings.port,
        # A class to uvicorn; we bind more to it.
        http="httptools" if portable else _protocol(service),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda config, default: tls.context,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        backlog=4096,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        body_bytes=settings.body_limit,
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=KEEP_ALIVE_S,
        flush_s=settings.send_timeout_s,
    )


def _protocol(service: Service) -> Callable[..., GateProtocol]:
    """What uvicorn makes for each connection."""
    limits = _limits(service.settings)

    def make(
        *,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: object = None,
    ) -> GateProtocol:
        return GateProtocol(
            app=config.loaded_app,
            forwarder=service.forwarder,
            keyring=service.keyring,
            limits=limits,
            server_state=server_state,
            state=app_state,
        )

    return make


class EmbeddedServer(uvicorn.Server):
    """uvicorn's server inside a program that has signals of its own; says when it accepts."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.accepting.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    service: Service, listener: socket.socket, *, portable: bool = False
) -> AsyncIterator[None]:
    """Serve a gate on a bound socket, in this event loop, while the block runs."""
    # Connections inherit it. asyncio sets it only on sockets that were made with proto=TCP, and
    # without it a head and the body after it are 40 ms apart: the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(listener)
    config = uvicorn_config(service, portable=portable)
    # Whoever leaves the block is done with the gate: what is still open then is cut.
    config.timeout_graceful_shutdown = 1
    server = EmbeddedServer(config)
    # A task of this scope and no group's, which would wrap what the block raises.
    served = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]), name="server")
    try:
        await server.accepting.wait()
        async with listening(service.metrics_port, log_where):
            yield
    finally:
        service.feed.close()
        server.should_exit = True
        await served


def _alternating(alternator: Alternator | None) -> list[Loop]:
    if alternator is None:
        return []
    return [Loop(name="alternate", every_s=ALTERNATE_EVERY_S, turn=alternator.turn)]


def _trying(trials: Trials | None) -> list[Loop]:
    if trials is None:
        return []
    return [Loop(name="switchback", every_s=TRIALS_EVERY_S, turn=_turn(trials.turn))]


def _tracing(settings: Settings) -> Tracing | None:
    if not settings.otel:
        return None
    # Here and not above: it needs the extra `otel`, and loads a client of its own.
    from specgate.telemetry.spans import OtlpSpans

    return Tracing(
        OtlpSpans(__version__),
        share=settings.otel_sample,
        scheme="http" if settings.tls_cert_file is None else "https",
        wall=time.time_ns,
        draw=random.random,
    )


def _seed() -> int:
    return int.from_bytes(os.urandom(4))


def _turn(step: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def turn() -> None:
        step()

    return turn


def _ids() -> Callable[[], bytes]:
    """Fresh request ids: this process's own random prefix, and a number."""
    prefix = os.urandom(8).hex().encode("ascii")
    numbers = count(1)
    return lambda: b"%b%06x" % (prefix, next(numbers))

"""The composition root: the only place that names concrete classes."""

import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

from fastapi import FastAPI

from specgate import __version__
from specgate.admin.api import build_app
from specgate.admin.metrics_port import metrics_port
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
from specgate.service import Service, limits_of
from specgate.settings import Loaded, Settings, load
from specgate.settings.certificates import clients_tls, lanes_tls
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

TICK_S = 0.25
"""How often the policy is applied between requests: well below any sensible smoothing."""

FRESH_SCRAPES = 3
"""An engine's word on its load holds for so many scrapes' time."""


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
            "metrics_host" if settings.metrics_host else "host",
            gate=gate,
            scrape=metrics.scrape,
            forwarder=forwarder,
            limits=limits_of(settings),
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
        read_token=settings.read_token,
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

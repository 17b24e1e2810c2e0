"""Taking changed settings under traffic: file and environment are read again, whole.

What reloads: threshold, band, the profile that they may come from, smoothing, burst, dwell,
switches an hour, whether the accept length is followed, the lanes' URLs and keys, the clients' keys
and, where their files' names stay, the certificates. Anything else is named
and waits for a restart. A reload that finds a mistake changes nothing; the next good one applies in
full. It also ends what was set by hand over the control surface: the files are the truth.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from specgate.admin.changes import of_settings, of_threshold
from specgate.control.admission_queue import AdmissionQueue
from specgate.control.gate import Gate
from specgate.core.config import Placement
from specgate.core.events import Observer, ReloadFailed, SettingsChanged
from specgate.core.lanes import Lane
from specgate.proxy.keys import Keyring
from specgate.settings import Loaded, Settings, SettingsError, reloadable_names
from specgate.settings.certificates import ClientsTls
from specgate.upstream.base import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Names of settings, sorted; warnings as `settings.load` gives them."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    warnings: tuple[str, ...]


class Reloader:
    """`load`: reads file and environment; `settings`: those that the gate started with."""

    def __init__(
        self,
        *,
        gate: Gate,
        queue: AdmissionQueue,
        keyring: Keyring,
        tls: ClientsTls | None,
        settings: Settings,
        load: Callable[[], Loaded],
        observe: Observer,
    ) -> None:
        self._gate = gate
        self._queue = queue
        self._keyring = keyring
        self._tls = tls
        self._settings = settings
        self._load = load
        self._observe = observe
        self._one_at_a_time = asyncio.Lock()

    async def reload(self, source: str) -> Outcome:
        """Raises SettingsError after leaving everything as it was. `source`: who asked."""
        async with self._one_at_a_time:
            try:
                # In a thread: the file may lie on a slow mount, and the loop is never blocked.
                loaded = await asyncio.to_thread(self._load)
                shown = None if self._tls is None else await asyncio.to_thread(self._tls.read)
            except SettingsError as error:
                self._observe(ReloadFailed(error=str(error)))
                raise
            if self._tls is not None and shown is not None:
                self._tls.use(shown)
            return self._apply(loaded, source)

    def _apply(self, loaded: Loaded, source: str) -> Outcome:
        was, now = self._settings, loaded.settings
        differ = {
            name for name in type(now).model_fields if getattr(was, name) != getattr(now, name)
        }
        changed = differ & reloadable_names()
        if Placement.ALTERNATE in (was.pool, now.pool):
            changed -= {"pool"}  # whose lanes take turns is known from the start
            now = now.with_pool(was.pool)
        if was.file_keys != now.file_keys:
            changed.add("api_keys_file")
        # What waits for a restart keeps its old value here too, or the next reload would not
        # name it again.
        kept = {name: getattr(now, name) for name in changed}
        before, policy = self._gate.view().policy, now.policy
        told = of_threshold(before, policy)
        if told:
            changed.add("threshold")  # which may have been set by hand
        measured = policy.curves, policy.contexts, policy.fingerprint
        self._settings = was.with_profile(kept, *measured).with_file_keys(now.file_keys)
        self._gate.set_origin(Origin.of(Lane.SPEC, now.spec_url, now.authorization(Lane.SPEC)))
        self._gate.set_origin(Origin.of(Lane.PLAIN, now.plain_url, now.authorization(Lane.PLAIN)))
        self._keyring.keys = now.client_keys
        self._gate.set_policy(policy)
        self._queue.use(now.admission)
        outcome = Outcome(
            changed=tuple(sorted(changed)),
            needs_restart=tuple(sorted(differ - changed)),
            warnings=loaded.warnings,
        )
        told += of_settings(changed, was, now)
        self._observe(
            SettingsChanged(names=outcome.changed, source=source, changes=tuple(sorted(told)))
        )
        return outcome

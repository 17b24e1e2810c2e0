"""What a profile says, where the settings leave it open: threshold, band and curves."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from specgate.core.contexts import Contexts
from specgate.core.curves import Curves
from specgate.core.profile import Fingerprint, ProfileError, loads
from specgate.core.shape import Shape
from specgate.core.threshold import contexts_of, curves_of, threshold_and_band

PROFILE_MOST = 8 * 1024 * 1024
"""Bytes of a profile's file; one of eight levels has 30 thousand. To decode it holds up the whole
process, on a reload too: 50 million bytes did for a second."""


class Measured(NamedTuple):
    """`values`: of the settings that were left open. `curves`: None where the profile leaves
    nothing to weigh, or a threshold is given; `contexts`: where it has several lengths of prompts.
    `caveat`: a warning where one is due. `fingerprint`: what was measured, None where nothing of
    the profile is taken."""

    values: dict[str, float | None]
    curves: Curves | None
    contexts: Contexts | None
    caveat: str | None
    fingerprint: Fingerprint | None


def measured(path: str, given: Collection[str], *, adaptive: bool = False) -> Measured:
    """`given`: names of settings that have a value of their own. `adaptive`: the live accept length
    is followed.

    A threshold that is given stands for another crossover, so nothing else of the profile is taken
    with it. Raises ValueError, which says what is wrong with the file, without its name.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(PROFILE_MOST + 1)
        if len(raw) > PROFILE_MOST:
            raise ValueError(f"larger than {PROFILE_MOST} bytes")
        profile = loads(raw.decode("utf-8"))
    except OSError as error:
        raise ValueError(error.strerror or "cannot be read") from error
    except UnicodeDecodeError as error:
        raise ValueError("not a profile: not UTF-8 text") from error
    except ProfileError as error:
        raise ValueError(str(error)) from error
    if "threshold" in given:
        return Measured({}, None, None, None, None)
    derived = threshold_and_band(profile)
    values = {"threshold": derived.threshold, "band": derived.band}
    open_ = {name: value for name, value in values.items() if name not in given}
    contexts = contexts_of(profile, adaptive=adaptive)
    curves = curves_of(profile, adaptive=adaptive) if contexts is None else contexts.main
    caveat = derived.caveat if curves is None or profile.verdict.shape is Shape.ALWAYS else None
    return Measured(open_, curves, contexts, caveat, profile.fingerprint)

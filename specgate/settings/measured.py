"""What a profile says, where the settings leave it open: the threshold and the band."""

from collections.abc import Collection
from pathlib import Path

from specgate.core.profile import ProfileError, loads
from specgate.core.threshold import threshold_and_band


def measured(path: str, given: Collection[str]) -> tuple[dict[str, float | None], str | None]:
    """Values for the settings that are not `given`, and a warning where one is due.

    A threshold that is given stands for another crossover, so the profile's band is not taken with
    it. Raises ValueError, which says what is wrong with the file, without its name.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        derived = threshold_and_band(loads(text))
    except OSError as error:
        raise ValueError(error.strerror or "cannot be read") from error
    except UnicodeDecodeError as error:
        raise ValueError("not a profile: not UTF-8 text") from error
    except ProfileError as error:
        raise ValueError(str(error)) from error
    if "threshold" in given:
        return {}, None
    values = {"threshold": derived.threshold, "band": derived.band}
    return {n: v for n, v in values.items() if n not in given}, derived.caveat

"""A profile as commands take it: the name of one that comes with specgate, or a file."""

from pathlib import Path

import click

from specgate.cli.completion import Completions, named
from specgate.core.profile import Profile, ProfileError, loads
from specgate.core.shape import Shape

INCONCLUSIVE = 3
"""Exit code: what was measured does not decide."""


class ProfileParam(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """NAME or FILE; refuses with a line that names the field that is wrong."""

    name = "profile"

    def convert(
        self, value: str | Profile, param: click.Parameter | None, ctx: click.Context | None
    ) -> Profile:
        if isinstance(value, Profile):
            return value
        if not value:
            return self.fail("an empty name: give a profile's name or a file", param, ctx)
        # Here, as they bring the simulator along.
        from specgate.bench.shipped import names, shipped

        if value in names():
            return shipped(value)
        try:
            return loads(Path(value).read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = ", ".join(names())
            return self.fail(f"{value}: no such file, and none of the profiles {known}", param, ctx)
        except OSError as error:
            return self.fail(f"{value}: {error.strerror}", param, ctx)
        except UnicodeDecodeError:
            return self.fail(f"{value}: not UTF-8 text", param, ctx)
        except ProfileError as error:
            return self.fail(f"{value}: {error}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> Completions:
        from specgate.bench.shipped import names

        return named(names(), incomplete)


PROFILE = ProfileParam()


def exit_code_of(profile: Profile) -> int:
    """0 decided, 3 inconclusive."""
    return INCONCLUSIVE if profile.verdict.shape is Shape.INCONCLUSIVE else 0

"""docs/reference/reasons.md, from `specgate.core.policy`."""

from string import Template

from specgate.core.policy import MEANINGS, Reason
from tests.docs.markdown import table, written_from

PAGE = Template("""\
$origin

# Reasons

Why a request went where it went. The set is closed. A reason is the value of the header
`x-specgate-reason`, of the metric label `reason`, of the log field `reason`, and of `reason` in
[`/_specgate/status`](control-api.md), where it is that of the last decision.

$rows

The rules that give these reasons, in their order, are in [the policy](../explanation/policy.md).
""")


def reasons_page() -> str:
    rows = [(f"`{reason}`", f"{_capital(MEANINGS[reason])}.") for reason in Reason]
    return PAGE.substitute(
        origin=written_from("specgate/core/policy.py"), rows=table(("reason", "meaning"), rows)
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]

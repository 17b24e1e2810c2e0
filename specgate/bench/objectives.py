"""What the arms are compared by, as a number of a cell: more is better. Pure.

throughput, tok/s; tpot and e2e, one over the mean time; goodput, requests a second that met the
SLO, or half a request in the window where none did (zero has no ratio).
"""

from specgate.core.cells import Cell
from specgate.core.profile import Objective


def value_of(cell: Cell, objective: Objective) -> float:
    """Raises ValueError where the cell lacks what the objective compares."""
    if objective is Objective.THROUGHPUT:
        return cell.tok_s
    if objective is Objective.E2E:
        return 1.0 / cell.e2e_s.mean
    if objective is Objective.TPOT:
        if cell.tpot_s is None:
            raise ValueError(f"{cell.arm} at {cell.concurrency} has no TPOT: nothing was streamed")
        return 1.0 / cell.tpot_s.mean
    if cell.slo_goodput is None:
        raise ValueError(f"{cell.arm} at {cell.concurrency} has no goodput: no SLO was given")
    return max(cell.slo_goodput, 0.5 / cell.window_s)

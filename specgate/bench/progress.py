"""What a bench says while it runs: a bar on a terminal, a line a cell everywhere; to stderr."""

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from specgate.bench.plan import Block
from specgate.bench.rates import RateBlock
from specgate.core.cells import Cell, RateCell


class Teller(Protocol):
    """Told of what happens, as it happens."""

    def begins(self, arm: str, block: Block | RateBlock, requests: int) -> None: ...

    def request(self) -> None: ...

    def ends(self, cell: Cell | RateCell, left_s: float) -> None: ...

    def warns(self, text: str) -> None: ...

    def says(self, text: str) -> None: ...


class OnConsole:
    """See the module. `left_s`: what the rest takes, about."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._task: TaskID | None = None
        self._left_s = 0.0

    def __enter__(self) -> "OnConsole":
        if self._console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TextColumn("{task.fields[left]}"),
                console=self._console,
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def begins(self, arm: str, block: Block | RateBlock, requests: int) -> None:
        if self._bars is None:
            return
        if self._task is not None:
            self._bars.remove_task(self._task)
        left = f"about {duration(self._left_s)} left" if self._left_s else ""
        self._task = self._bars.add_task(
            _place(arm, block.label, block.group.context, block.repeat), total=requests, left=left
        )

    def request(self) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task)

    def ends(self, cell: Cell | RateCell, left_s: float) -> None:
        self._left_s = left_s
        label = f"C={cell.concurrency}" if isinstance(cell, Cell) else f"{cell.rate:g}/s"
        line = f"{_place(cell.arm, label, cell.context, cell.repeat)}  {figures(cell)}"
        if self._left_s:
            line += f"  (about {duration(self._left_s)} left)"
        self.says(line)

    def warns(self, text: str) -> None:
        self.says(f"warning: {text}")

    def says(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def figures(cell: Cell | RateCell) -> str:
    """A cell in one line."""
    if cell.void is not None:
        return f"void: {cell.void}"
    if isinstance(cell, RateCell) and cell.saturated is not None:
        return f"saturated: {cell.saturated}"
    parts = [f"{cell.tok_s:8.1f} tok/s"]
    if isinstance(cell, RateCell):
        parts.append(f"in flight {cell.in_flight:.1f}")
    if cell.ttft_s is not None and isinstance(cell, RateCell):
        parts.append(f"TTFT p50 {cell.ttft_s.p50:.3f} p99 {cell.ttft_s.p99:.3f} s")
    elif cell.ttft_s is not None:
        parts.append(f"TTFT {cell.ttft_s.mean:.3f} s")
    if cell.tpot_s is not None:
        parts.append(f"TPOT {cell.tpot_s.mean * 1000:.1f} ms")
    parts.append(f"E2E {cell.e2e_s.mean:.2f} s")
    if cell.accept_length is not None:
        parts.append(f"accept {cell.accept_length:.2f}")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """For people: 40 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _place(arm: str, label: str, context: int | None, repeat: int) -> str:
    length = f" context {context}" if context is not None else ""
    return f"{label:<6s}{length} repeat {repeat + 1}  {arm:<8s}"

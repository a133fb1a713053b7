"""What a sweep computes block by block: `RunsJob` from initial data, `SolutionsJob` between ends. It travels to workers."""

from __future__ import annotations

import abc
import threading
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dalembert.path import Provenance, Study
from dalembert.step.run.state import Watch
from dalembert.studies.blockwise.blocks import Blocks
from dalembert.studies.blockwise.swept import Swept

if TYPE_CHECKING:
    import xarray


class SweepOpening(NamedTuple):
    """What is known before the first of them. template: a data set of one, without values; fingerprint: as of the job."""

    template: xarray.Dataset
    fingerprint: dict[str, str]


class SweepJob(abc.ABC):
    """Runs or solutions in blocks. threads: of a block, all processors if None; unit: of what progress counts."""

    unit: ClassVar[str] = "steps"

    def __init__(self, swept: Swept, blocks: Blocks, threads: int | None):
        self.swept, self.blocks, self.threads = swept, blocks, threads
        self._ready, self._making, self._warned = None, threading.Lock(), False

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name not in ("_ready", "_making")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _ready=None, _making=threading.Lock())

    @property
    @abc.abstractmethod
    def work(self) -> int:
        """Of one run or solution, in units of `unit`."""

    @property
    @abc.abstractmethod
    def subject(self) -> Any:
        """What is run or solved, for pictures."""

    @property
    @abc.abstractmethod
    def record(self) -> Provenance:
        """Of the call."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """By what the bits of all are determined besides the record. May compile."""

    @abc.abstractmethod
    def opening(self) -> SweepOpening:
        """May compile."""

    @abc.abstractmethod
    def block(self, i: int, watch: Watch = None) -> xarray.Dataset:
        """The i-th block over the axis `run`; KeyboardInterrupt where Ctrl-C broke it off."""

    @abc.abstractmethod
    def study(self, i: int, watch: Watch = None) -> Study:
        """The i-th block over the axes of the sweep."""

    @abc.abstractmethod
    def _prepare(self) -> Any:
        """What all blocks need."""

    def _once(self) -> Any:
        """It, made once in every process, by whichever thread comes first."""
        with self._making:
            if self._ready is None:
                self._ready = self._prepare()
        return self._ready

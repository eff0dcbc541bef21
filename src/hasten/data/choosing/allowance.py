"""What this process may use for loading, and what a setting would take of it."""

from dataclasses import dataclass

from hasten.host.cores import cores_allowed, memory_left, shared_memory_left
from hasten.records.loading import ThreadSettings, WorkerSettings

SHARE = 0.5
"""Of the memory that is left, so that the training has the rest."""


@dataclass(frozen=True)
class Allowance:
    cores: float
    memory_bytes: int
    shared_bytes: int
    """That processes hand each other batches through."""

    @classmethod
    def now(cls) -> "Allowance":
        return cls(cores_allowed(), memory_left(), shared_memory_left())

    def worker_counts(self) -> list[int]:
        """1, 2, 4, ... and the most: one for each core. Less than one core is one."""
        most = max(int(self.cores), 1)
        doubled = [2**power for power in range(most.bit_length()) if 2**power < most]
        return [*doubled, *([most * 3 // 4] if most >= 8 else []), most]

    def too_much(
        self,
        settings: WorkerSettings | ThreadSettings,
        *,
        batch_bytes: int,
        worker_bytes: int = 0,
    ) -> str | None:
        """What of it a setting would exceed, in words; None where it fits."""
        many = settings.workers if isinstance(settings, WorkerSettings) else settings.threads
        if many > max(self.cores, 1):
            return f"{many} are more than the {self.cores:g} cores that this process may use"
        taken = (settings.ahead + 1) * batch_bytes
        if isinstance(settings, WorkerSettings):
            if taken > SHARE * self.shared_bytes:
                return f"its batches take {_mib(taken)} of {_mib(self.shared_bytes)} shared memory"
            taken += many * worker_bytes
        if taken > SHARE * self.memory_bytes:
            return f"it takes {_mib(taken)} of the {_mib(self.memory_bytes)} memory that is left"
        return None


def _mib(number: float) -> str:
    return f"{number / 2**20:,.0f} MiB"

"""The machine that a measurement was taken on."""

from hasten.records.record import Record, digest_of


class Device(Record, frozen=True, kw_only=True):
    kind: str
    """What torch calls it: "cpu", "cuda", ..."""
    name: str
    count: int
    memory_bytes: int
    bf16: bool = False
    """Whether it computes bf16 products by instructions of its own."""
    capability: tuple[int, int] = (0, 0)
    """Of a CUDA device, such as (9, 0); (0, 0) elsewhere."""

    def own_bytes(self) -> int | None:
        """Of a memory apart from the host's; None where there is none."""
        return None if self.kind == "cpu" else self.memory_bytes


class Environment(Record, frozen=True, kw_only=True):
    device: Device
    cpu: str
    cores_allowed: float
    """What affinity and the control group let this process use, not what the machine has."""
    cores_present: int
    threads: int
    """That torch computes with on the CPU."""
    memory_bytes: int
    """The smaller of the machine's memory and the control group's limit."""
    shared_memory_bytes: int
    system: str
    compiler: str | None = None
    """The C++ compiler that torch.compile would use on the CPU; None where there is none."""
    versions: dict[str, str]

    def decisive(self) -> dict[str, str]:
        """What a speed or numerics verdict depends on; two machines alike in these are alike."""
        return {
            "device": f"{self.device.count} x {self.device.name}",
            "cpu": self.cpu,
            "cores_allowed": f"{self.cores_allowed:g}",
            "threads": str(self.threads),
            "system": self.system,
            "python": ".".join(self.versions.get("python", "").split(".")[:2]),
            "torch": self.versions.get("torch", ""),
        }

    def fingerprint(self) -> str:
        return digest_of(self.decisive())[:16]

    def differences(self, other: "Environment") -> list[str]:
        """One line for each decisive thing in which ``other`` is unlike this machine."""
        mine, theirs = self.decisive(), other.decisive()
        return [
            f"{key}: {theirs[key]}, here {mine[key]}" for key in mine if mine[key] != theirs[key]
        ]

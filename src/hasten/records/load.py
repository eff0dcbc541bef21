"""What else the machine was doing while something was timed."""

from hasten.records.record import Record

NOTABLE_CORES = 0.25
"""Below that it is the usual bustle of a running system."""


class DeviceLoad(Record, frozen=True, kw_only=True):
    """Of an accelerator, as its driver tells."""

    lowest_mhz: int
    highest_mhz: int
    slowed_by: tuple[str, ...]
    """Why its clocks were held down: heat, power, hardware."""


class Load(Record, frozen=True, kw_only=True):
    cores: int
    """That this process may run on."""
    others_cores: float
    """How many of them other programs kept busy, on average."""
    throttled_s: float
    """How long the control group's quota held us back."""
    lowest_mhz: int | None = None
    """Of the processor, where it tells."""
    highest_mhz: int | None = None
    device: DeviceLoad | None = None

    def disturbance(self) -> str | None:
        """In words, what of it may have disturbed the timing; None for nothing."""
        found = []
        if self.others_cores >= NOTABLE_CORES:
            found.append(f"other programs kept {self.others_cores:.1f} of {self.cores} cores busy")
        if self.throttled_s > 0:
            found.append(f"the quota of this container held it back for {self.throttled_s:.1f} s")
        if self.device is not None and self.device.slowed_by:
            found.append(f"the device slowed down ({', '.join(self.device.slowed_by)})")
        return "; ".join(found) or None

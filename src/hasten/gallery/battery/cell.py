"""A lithium-ion cell as an equivalent circuit, and its temperature.

An ideal source whose voltage follows the state of charge, a resistance, and a resistance with a
capacitor beside it (an RC pair), whose voltage lags behind the current. Both resistances grow in
the cold and when the cell is nearly empty; what they take heats the cell.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_NOMINAL_AH = 3.0
# Open-circuit voltage of a nickel-manganese-cobalt cell: steep at both ends, flat between.
_CHARGES = (0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_VOLTAGES = (2.9, 3.17, 3.34, 3.44, 3.53, 3.59, 3.63, 3.68, 3.77, 3.87, 3.96, 4.06, 4.19)

_OHM = 0.02
_RC_OHM = 0.012
_RC_S = 30.0
"""After this time the RC pair has come 63 % of its way."""
_EMPTY_OHM = 0.4
"""By how much, as a share, resistances are higher in an empty cell."""
_EMPTY_CHARGE = 0.1
_ARRHENIUS_K = 2_500.0
_REFERENCE_K = 298.15
_ZERO_CELSIUS_K = 273.15
_HEAT_J_PER_K = 40.0
_COOLING_W_PER_K = 0.08


@dataclass(frozen=True, kw_only=True)
class Cells:
    """What tells one cell from another, an element each."""

    capacity_ah: Array
    resistance: Array
    """Times that of a typical cell."""

    def repeated(self, times: int) -> "Cells":
        return Cells(
            capacity_ah=self.capacity_ah.repeat(times), resistance=self.resistance.repeat(times)
        )


def draw_cells(rng: np.random.Generator, count: int) -> Cells:
    """Some have aged more than others: they hold less, and resist more."""
    age = rng.random(count)
    return Cells(
        capacity_ah=_NOMINAL_AH * (1 - 0.12 * age) * rng.normal(1, 0.01, count),
        resistance=(1 + 0.3 * age) * rng.normal(1, 0.03, count),
    )


def discharge(
    cells: Cells, current: Array, start: Array, ambient: Array
) -> tuple[Array, Array, Array]:
    """Voltage, temperature and charge at each second: ``current`` in A, (cells, seconds), positive
    where it is taken; ``start`` the charge that each begins with, ``ambient`` in degrees Celsius.

    One step a second, all cells at once.
    """
    used = np.cumsum(current, axis=1) / (3600 * cells.capacity_ah[:, None])
    charge = start[:, None] - used
    when_empty = 1 + _EMPTY_OHM * np.exp(-charge / _EMPTY_CHARGE)
    ohm = _OHM * cells.resistance[:, None] * when_empty
    # In a second the pair comes this share of the way to where the current would hold it.
    share = 1 - np.exp(-1 / _RC_S)

    drop, temperature = np.empty_like(current), np.empty_like(current)
    pair, kelvin = np.zeros(len(current)), ambient + _ZERO_CELSIUS_K
    for second in range(current.shape[1]):
        amperes = current[:, second]
        cold = np.exp(_ARRHENIUS_K * (1 / kelvin - 1 / _REFERENCE_K))
        ohmic = amperes * ohm[:, second] * cold
        pair = pair + share * (ohmic * (_RC_OHM / _OHM) - pair)
        drop[:, second], temperature[:, second] = ohmic + pair, kelvin - _ZERO_CELSIUS_K
        cooling = _COOLING_W_PER_K * (kelvin - _ZERO_CELSIUS_K - ambient)
        kelvin = kelvin + (amperes * (ohmic + pair) - cooling) / _HEAT_J_PER_K
    return np.interp(charge, _CHARGES, _VOLTAGES) - drop, temperature, charge

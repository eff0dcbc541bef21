"""Plain values that modules keep in Python: rates, modes, counters of their own."""

from torch import nn

Plain = bool | int | float | str


def plain_attributes(model: nn.Module) -> dict[tuple[nn.Module, str], Plain]:
    """Of every module, by the module itself and the attribute's name."""
    return {
        (module, key): value
        for module in model.modules()
        for key, value in vars(module).items()
        if isinstance(value, Plain)
    }


def restore_attributes(values: dict[tuple[nn.Module, str], Plain]) -> None:
    for (module, key), value in values.items():
        vars(module)[key] = value


def forget_other_attributes(model: nn.Module, values: dict[tuple[nn.Module, str], Plain]) -> None:
    """Take away those that have come since."""
    for module, key in plain_attributes(model).keys() - values.keys():
        del vars(module)[key]

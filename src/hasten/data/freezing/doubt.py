"""Why an item is not trusted to be the same each time."""


class Doubt(Exception):  # noqa: N818
    """What speaks against trusting an item to be the same each time, with its place."""


class MayDraw(Doubt):
    """It may draw random numbers, or set what others draw."""

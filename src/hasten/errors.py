"""The one exception that Hasten raises on purpose."""


class HastenError(Exception):
    """Something that the user can mend: what is wrong, with the value, and what to do about it.

    ``detail`` carries text that belongs to the user's own code, such as its traceback.
    """

    def __init__(self, what: str, *, fix: str = "", detail: str = "") -> None:
        super().__init__(f"{what} {fix}".strip())
        self.what = what
        self.fix = fix
        self.detail = detail

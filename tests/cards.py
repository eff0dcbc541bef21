"""Cards as tests read them."""

HOSTILE = "\x1b[2J\x1b[31m[bold]x[/bold][/nothing] :bug:\n\rPROVEN\x07"
INERT = "?[2J?[31m[bold]x[/bold][/nothing] :bug:??PROVEN?"


def sections(text: str) -> dict[str, list[str]]:
    """Lines below each heading; the verdict is above the first."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in text.splitlines():
        if line and not line.startswith(" ") and found[""]:
            heading = line.strip()
            found[heading] = []
        elif line.strip():
            found[heading].append(line.strip())
        if not found[""] and line:
            found[""].append(line.strip())
    return found

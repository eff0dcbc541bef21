"""A query of a database for each sample."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

DATABASE = re.compile(r"(^|_)(conn|connection|cursor|cur|db|database)$")


class QueryPerSample(Rule):
    code = "HST140"
    name = "query-for-each-sample"
    why = (
        "Each sample is a query of its own: it is parsed, planned and locked for a single row, and"
        " what comes back is decoded in Python."
    )
    instead = (
        "Ask for the rows of a whole batch at once (`__getitems__`, `WHERE id IN (...)`), or keep"
        " the rows as arrays in files that are mapped into memory."
    )
    verify = "Compare the samples of both versions."
    effort = "a day"
    calls = ("get", "execute", "select", "fetchone")
    least = Heat.ELEMENT
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import Dataset

class Rows(Dataset):
    def __getitem__(self, index):
        row = self.conn.get(index + 1)  # !
        other = self.cursor.execute("SELECT x FROM rows WHERE id = ?", (index,))  # !
        return row, other
""",
        """\
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, conn):
        self.rows = conn.execute("SELECT x FROM rows").fetchall()

    def __getitem__(self, index):
        return self.rows[index], self.names.get(index)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        asked = receiver(site.node)
        if site.node.args and DATABASE.search(last_name(asked)):
            yield Found(site.node, f"`{look.source(site.node.func)}` is asked for one sample")

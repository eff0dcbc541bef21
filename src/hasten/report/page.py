"""The report of a tuning as one HTML page that stands alone: no script, nothing to load."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hasten.records.recipe import Evidence
from hasten.report.text import printable
from hasten.report.tuning import headline
from hasten.report.tuning_sections import key_figures, tune_sections

TEMPLATE = "page.html.j2"


def tune_page(evidence: Evidence, out: str) -> str:
    """``out`` is the folder that the tuning wrote into, as the commands in the page name it."""
    pages = Environment(
        loader=PackageLoader("hasten.report", ""),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(TEMPLATE).render(
        evidence=evidence,
        head=headline(evidence),
        figures=key_figures(evidence),
        sections=tune_sections(evidence, out),
    )


def _printable(value: object) -> object:
    """Of every text that is put in, before it is escaped; drawings have seen to it themselves."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

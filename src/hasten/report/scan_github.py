"""What a scan found, as commands by which GitHub shows it beside the lines of a pull request."""

from hasten.records.scan import CodeFinding, ScanReport, Severity
from hasten.report.text import printable

LEVELS: dict[Severity, str] = {
    "high": "warning",
    "medium": "warning",
    "low": "notice",
    "info": "notice",
}


def scan_annotations(report: ScanReport) -> str:
    """A line for each finding, and a notice for what could not be read."""
    lines = [_finding(each) for each in report.findings]
    lines += [
        _command("notice", f"not read: {why}", file=path)
        for path, why in report.summary.unreadable.items()
    ]
    lines += [
        _command("notice", each.message, file=each.path, line=str(each.line))
        for each in report.summary.remarks
    ]
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: CodeFinding) -> str:
    return _command(
        LEVELS[finding.severity],
        f"{finding.message}. {finding.why}",
        file=finding.path,
        line=str(finding.line),
        endLine=str(finding.end_line),
        **_columns(finding),
        title=f"{finding.code} {finding.name}",
    )


def _columns(finding: CodeFinding) -> dict[str, str]:
    """GitHub takes none of what goes over several lines."""
    if finding.end_line != finding.line:
        return {}
    return {"col": str(finding.column), "endColumn": str(finding.end_column)}


def _command(level: str, message: str, **properties: str) -> str:
    """Percent signs and ends of lines mean something everywhere, commas and colons before the
    message."""
    written = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{level} {written}::{_escaped(message)}"


def _escaped(text: str) -> str:
    """Other control characters would drive the terminal of whoever looks at the log."""
    text = "".join(each if each in "\r\n" else printable(each) for each in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

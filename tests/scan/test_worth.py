"""What rules are said to be worth is what files of results say."""

import json
from pathlib import Path

from hasten.scan.registry import all_rules
from hasten.scan.words import rules_in_words
from hasten.scan.worth import FILE, worth_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
KEPT = json.loads(FILE.read_text())


def test_every_figure_stands_in_a_file_of_results() -> None:
    assert len(KEPT) > 20
    assert KEPT.keys() <= {each.code for each in all_rules()}
    for code, worth in KEPT.items():
        for measured in worth["measured"]:
            found = json.loads((RESULTS / measured["results"]).read_text())
            row = found["pairs"][code]
            assert measured["on"] == found["environment"]["device"]["name"]
            assert {name: measured[name] for name in ("times", "least", "most")} == {
                name: row[name] for name in ("times", "least", "most")
            }
            assert worth["about"] == row["about"]


def test_a_rule_tells_its_worth_with_the_file_and_one_that_was_not_measured_nothing() -> None:
    told = {each.code: each.worth for each in rules_in_words()}
    for code, worth in KEPT.items():
        assert told[code].startswith(worth["about"])
        assert all(measured["results"] in told[code] for measured in worth["measured"])
    assert worth_of("HST000") == ""
    assert any(not each for each in told.values())

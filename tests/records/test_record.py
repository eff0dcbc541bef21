"""Records: closed keys, errors that name the place, and the way through JSON and TOML."""

from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.errors import HastenError
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import Evidence, Recipe
from hasten.records.record import (
    Record,
    digest_of,
    from_builtins,
    from_json,
    parse_toml,
    to_json,
    to_toml,
    unknown_name,
)
from hasten.records.verdict import NumericsClaim
from specimens import (
    BENCH,
    DIAGNOSED,
    ENVIRONMENT,
    GATE,
    INFERENCE,
    NOTHING_TO_GAIN,
    PROOF,
    PROVEN,
    RECIPE,
    SAVED,
    UNPROVEN,
)

ABSENT = object()
T = TypeVar("T")


def changed(record: object, *path: str | int, to: object) -> Any:
    """The record as plain dicts and lists, with one thing in it replaced or taken out."""
    raw = msgspec.json.decode(msgspec.json.encode(record))
    place = raw
    for key in path[:-1]:
        place = place[key]
    if to is ABSENT:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return raw


def refusal(raw: object, kind: type[Record]) -> str:
    with pytest.raises(HastenError) as caught:
        from_builtins(raw, kind, where="some.toml")
    return str(caught.value)


@pytest.mark.parametrize("evidence", [PROVEN, NOTHING_TO_GAIN, UNPROVEN])
def test_evidence_comes_back_from_json_as_it_was(evidence: Evidence) -> None:
    assert from_json(to_json(evidence), Evidence, where="evidence.json") == evidence


def test_reports_come_back_from_json_as_they_were() -> None:
    for report in (BENCH, SAVED, GATE, INFERENCE, PROOF, PROVEN):
        assert from_json(to_json(report), type(report), where="bench") == report


def _through_toml(record: T) -> T:
    raw = parse_toml(to_toml(record), where="recipe.toml")
    return from_builtins(raw, type(record), where="recipe.toml")


def test_a_recipe_comes_back_from_toml_as_it_was() -> None:
    assert _through_toml(RECIPE) == RECIPE


def test_a_machine_without_a_compiler_comes_back_from_toml() -> None:
    bare = msgspec.structs.replace(ENVIRONMENT, compiler=None)
    assert "compiler" not in to_toml(bare)
    assert _through_toml(bare) == bare


def test_evidence_of_a_training_that_gave_no_number_can_be_read_back() -> None:
    losses = (0.5, float("nan"), float("inf"))
    measurement = msgspec.structs.replace(DIAGNOSED.measurement, losses=losses)
    diagnosed = msgspec.structs.replace(DIAGNOSED, measurement=measurement)
    evidence = msgspec.structs.replace(PROVEN, diagnosed=(diagnosed,))
    read = from_json(to_json(evidence), Evidence, where="evidence.json")
    assert read.naive().measurement.losses == (0.5, None, None)


text_values = st.text(st.characters(codec="utf-8"), max_size=20)
part_values = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | text_values
    | st.lists(st.integers(-(2**63), 2**63 - 1) | text_values, max_size=3)
)


@settings(deadline=None)
@given(
    parts=st.dictionaries(text_values, st.dictionaries(text_values, part_values, max_size=3)),
    task=text_values,
)
def test_any_plan_and_any_name_survive_toml_and_json(
    parts: dict[str, dict[str, Any]], task: str
) -> None:
    recipe = msgspec.structs.replace(RECIPE, plan=parts, task=task)
    assert _through_toml(recipe) == recipe
    finite = "inf" not in repr(parts)  # JSON has no infinity
    if finite:
        assert from_json(to_json(recipe), Recipe, where="recipe.json") == recipe


def test_an_unknown_key_is_named_with_its_path_and_the_nearest_known_one() -> None:
    raw = changed(RECIPE, "environment", "device", "nam", to="x")
    assert refusal(raw, Recipe) == (
        "some.toml: key 'environment.device.nam' is not known."
        " Did you mean 'environment.device.name'?"
    )


def test_an_unknown_key_of_the_top_level_is_named() -> None:
    assert refusal(changed(RECIPE, "formt", to=1), Recipe) == (
        "some.toml: key 'formt' is not known. Did you mean 'format'?"
    )


def test_an_unknown_key_inside_a_list_is_named_with_its_index() -> None:
    raw = changed(PROVEN, "trials", 1, "candidate", "tecnique", to="x")
    assert "key 'trials[1].candidate.tecnique'" in refusal(raw, Evidence)
    assert "Did you mean 'trials[1].candidate.technique'?" in refusal(raw, Evidence)


def test_an_unknown_key_inside_a_record_that_may_be_missing_is_named() -> None:
    raw = changed(PROVEN, "confirmation", "a_memory", "host_byte", to=1)
    assert "Did you mean 'confirmation.a_memory.host_bytes'?" in refusal(raw, Evidence)


def test_a_key_unlike_any_other_gets_the_list_of_all() -> None:
    raw = changed(RECIPE, "environment", "device", "zzz", to="x")
    assert refusal(raw, Recipe).endswith(
        "Known: bf16, capability, count, kind, memory_bytes, name."
    )


def test_a_key_that_is_a_target_is_a_key_like_any_other() -> None:
    assert "'_target_' is not known" in refusal(changed(RECIPE, "_target_", to="os.system"), Recipe)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "1", 'format = "1" is text; it takes a whole number.'),
        (("format",), True, "format = true is a boolean; it takes a whole number."),
        (("task",), 3, "task = 3 is a whole number; it takes text."),
        (("speed", "low"), "1.4", 'speed.low = "1.4" is text; it takes a number.'),
        (
            ("speed", "verdict"),
            "perhaps",
            'speed.verdict = "perhaps" is not known;'
            ' it takes "proven" or "not_proven" or "refuted".',
        ),
        (
            ("numerics", "rung"),
            "exact",
            'numerics.rung = "exact" is not known;'
            ' it takes "bitwise" or "rounding" or "parity" or "changes_training".',
        ),
        (("speed",), [], "speed = [] is a list; it takes a table or nothing."),
        (("plan", "compile"), 3, "plan.compile = 3 is a whole number; it takes a table."),
        (
            ("plan", "compile", "mode"),
            {"_target_": "x"},
            "plan.compile.mode = {'_target_': 'x'} is a table;"
            " it takes true or false or a whole number of 64 bits or a number or text or a list"
            " (a whole number of 64 bits or a number or text each).",
        ),
        (
            ("plan", "compile", "mode"),
            [1, [2]],
            "plan.compile.mode[1] = [2] is a list;"
            " it takes a whole number of 64 bits or a number or text.",
        ),
        (
            ("environment", "versions", "torch"),
            2.13,
            "environment.versions.torch = 2.13 is a number; it takes text.",
        ),
        (("speed", "ratio"), ABSENT, "key 'speed.ratio' is missing."),
        (("task",), ABSENT, "key 'task' is missing."),
    ],
)
def test_a_wrong_value_is_named_with_its_full_path(
    path: tuple[str, ...], value: object, message: str
) -> None:
    with pytest.raises(HastenError) as caught:
        from_builtins(changed(RECIPE, *path, to=value), Recipe, where="some.toml")
    assert caught.value.what == f"some.toml: {message}"
    assert caught.value.fix


def test_a_long_value_is_shown_in_part() -> None:
    assert len(refusal(changed(RECIPE, "speed", "low", to="9" * 10_000), Recipe)) < 200


def test_a_wrong_value_in_a_list_is_named_with_its_index() -> None:
    raw = changed(PROVEN, "trials", 0, "comparison", "rounds", 3, "a_s", to="fast")
    assert 'trials[0].comparison.rounds[3].a_s = "fast" is text' in refusal(raw, Evidence)


def test_a_wrong_key_of_a_part_is_named_below_the_path_of_the_part() -> None:
    with pytest.raises(
        HastenError, match=r"plan: plan\.compile\.name = 3 is a whole number; it takes text"
    ):
        from_builtins(
            {**changed(ENVIRONMENT.device, "name", to=3)},
            type(ENVIRONMENT.device),
            where="plan",
            path="plan.compile",
        )


def test_control_characters_of_a_file_do_not_reach_the_message() -> None:
    verdict = changed(RECIPE, "speed", "verdict", to="\x1b[31mred")
    key = changed(RECIPE, "plan", "\x1b[2J\n", to=3)
    unknown = changed(RECIPE, "\x1b[2J", to=3)
    for raw in (verdict, key, unknown):
        assert refusal(raw, Recipe).isprintable()


@pytest.mark.parametrize(
    "text",
    ["= 1", "x = " + "[" * 100_000, "format = " + "9" * 5000, "x = 2024-13-45", "a = 1\na = 2"],
    ids=["no key", "nested without end", "number without end", "no date", "twice"],
)
def test_what_is_not_toml_is_refused_in_words(text: str) -> None:
    with pytest.raises(HastenError, match=r"r\.toml is not TOML"):
        parse_toml(text, where="r.toml")


@pytest.mark.parametrize("text", [b"{", b"", b"[" * 100_000, b"\xff"])
def test_what_is_not_json_is_refused_in_words(text: bytes) -> None:
    with pytest.raises(HastenError, match=r"e\.json is not JSON"):
        from_json(text, Evidence, where="e.json")


def test_json_of_another_kind_is_refused_in_words() -> None:
    with pytest.raises(HastenError, match=r"e\.json: the top level is a list; it takes a table"):
        from_json(b"[]", Evidence, where="e.json")


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RECIPE.task = "other"  # type: ignore[misc]


def test_a_digest_depends_on_the_content_and_not_on_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of({"a": 1, "b": 2}) != digest_of({"a": 2, "b": 1})


def test_an_unknown_name_with_nothing_to_choose_from_says_so() -> None:
    error = unknown_name("arm", "fast", [], where="here")
    assert str(error) == "here: arm 'fast' is not known. Known: none."


def test_a_plan_is_on_the_deepest_rung_of_its_parts() -> None:
    assert Rung.deepest([Rung.BITWISE, Rung.PARITY, Rung.ROUNDING]) is Rung.PARITY
    assert Rung.deepest([]) is Rung.BITWISE


def test_the_plan_that_changes_nothing_has_a_name_and_no_parts() -> None:
    assert str(NAIVE) == "naive"
    assert str(Plan(parts={"a": {}, "b": {}})) == "a + b"


def test_a_part_is_put_into_a_copy_of_the_plan() -> None:
    one = NAIVE.with_part("a", {"x": 1})
    two = one.with_part("b", {}).with_part("a", {"x": 2})
    assert NAIVE.parts == {}
    assert one.parts == {"a": {"x": 1}}
    assert two.parts == {"a": {"x": 2}, "b": {}}
    assert two.without("a", "c").parts == {"b": {}}


def test_numerics_say_the_check_that_failed_first() -> None:
    claim = PROVEN.numerics
    assert claim is not None
    assert claim.why() == "largest difference 0.3 of what is allowed"
    failed = msgspec.structs.replace(claim.checks[0], verdict="refuted", why="weights differ")
    broken = msgspec.structs.replace(claim, verdict="refuted", checks=(failed, *claim.checks[1:]))
    assert broken.why() == "weights differ"


def test_numerics_without_a_check_say_that_nothing_was_checked() -> None:
    empty = NumericsClaim(rung=Rung.BITWISE, verdict="not_proven", checks=())
    assert empty.why() == "nothing was checked"

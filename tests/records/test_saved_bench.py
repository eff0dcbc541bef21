"""Files of ``hasten bench --save``: what is no such file is refused, with the reason."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.records.record import to_json
from hasten.records.saved_bench import LARGEST_SAVED_BYTES, REFERENCE, is_saved, read_saved
from specimens import SAVED


def written(folder: Path, **fields: Any) -> Path:
    raw = {**msgspec.json.decode(to_json(SAVED)), **fields}
    path = folder / "bench.json"
    path.write_bytes(msgspec.json.encode(raw))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(HastenError) as caught:
        read_saved(path)
    return str(caught.value)


def test_a_saved_bench_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_saved(written(tmp_path)) == SAVED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"format": 2}, "format 2 is not known; this Hasten has 1. Save it anew"),
        ({"format": 2, "new_key": 1}, "format 2 is not known"),
        ({"reference": 1}, f"reference 1 is not known; this Hasten has {REFERENCE}. Save it"),
        ({"tsak": "t"}, "key 'tsak' is not known. Did you mean 'task'?"),
        ({"seed": "0"}, 'seed = "0" is text'),
        ({"pairs": []}, "has no pairs to compare with"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    assert words in refusal(written(tmp_path, **fields))


@pytest.mark.parametrize("key", ["ratio", "low", "high"])
def test_a_pair_that_says_nothing_is_refused(key: str, tmp_path: Path) -> None:
    raw = msgspec.to_builtins(SAVED.pairs)
    pairs = [{**raw[0], key: 0.0}, *raw[1:]]
    assert "has no pairs to compare with" in refusal(written(tmp_path, pairs=pairs))


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "nowhere.json")
    assert "cannot be read" in refusal(tmp_path)
    path = tmp_path / "text.json"
    path.write_text("hello")
    assert "is not JSON" in refusal(path)
    path.write_bytes(b" " * (LARGEST_SAVED_BYTES + 1))
    assert "which no saved bench has" in refusal(path)


def test_a_saved_bench_is_told_from_other_files() -> None:
    assert is_saved(to_json(SAVED))
    assert is_saved(b'{"format": 99, "reference": 9, "pairs": null}')
    for other in (b"", b"[]", b"import torch", b'{"format": 1}', b"\xff"):
        assert not is_saved(other)

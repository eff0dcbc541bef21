"""Where the cache of a user is."""

from pathlib import Path

import pytest

from hasten.errors import HastenError
from hasten.host.folders import cache_root


def test_the_folder_is_the_one_that_the_user_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_root() == Path("/somewhere/hasten")


@pytest.mark.parametrize("named", ["", "relative/path", "~"])
def test_it_is_in_the_home_where_none_is_named_in_full(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache/hasten"


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(HastenError, match="no home folder") as error:
        cache_root()
    assert "XDG_CACHE_HOME" in error.value.fix

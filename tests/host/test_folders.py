"""Where the cache is."""

from pathlib import Path

import pytest

from hasten.host.folders import cache_root


def test_the_cache_is_where_the_user_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / ".cache" / "hasten"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own" / "hasten"
    for not_absolute in ("", "own"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert cache_root() == tmp_path / ".cache" / "hasten"

"""What tests of the search share."""

from typing import Any

import pytest

from hasten.tune import rivals
from hasten.tune import search as searching
from pretended_world import MakeWorld, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MakeWorld:
    def make(**settings: Any) -> World:
        made = World(**settings)
        monkeypatch.setattr(rivals, "compare", made.compare)
        monkeypatch.setattr(searching, "prove_steps", made.prove)
        return made

    return make

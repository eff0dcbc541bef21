"""When two machines are alike."""

import msgspec
import pytest

from hasten.records.environment import Environment
from hasten.records.recipe import other_machine
from specimens import ENVIRONMENT


def other(**fields: object) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, **fields)


def other_device(**fields: object) -> Environment:
    return other(device=msgspec.structs.replace(ENVIRONMENT.device, **fields))


def other_versions(**versions: str) -> Environment:
    return other(versions={**ENVIRONMENT.versions, **versions})


DECISIVE = {
    "device": (other_device(name="NVIDIA H200"), "1 x NVIDIA H200", "1 x Some CPU (AVX2)"),
    "count": (other_device(count=8), "8 x Some CPU (AVX2)", "1 x Some CPU (AVX2)"),
    "cpu": (other(cpu="Another CPU"), "Another CPU", "Some CPU (AVX2)"),
    "cores": (other(cores_allowed=2.0), "2", "1.5"),
    "system": (other(system="Darwin arm64"), "Darwin arm64", "Linux x86_64"),
    "python": (other_versions(python="3.12.0"), "3.12", "3.11"),
    "torch": (other_versions(torch="2.11.0"), "2.11.0", "2.13.0"),
}


@pytest.mark.parametrize("what", DECISIVE)
def test_a_decisive_difference_is_one_line_and_another_fingerprint(what: str) -> None:
    machine, there, here = DECISIVE[what]
    (line,) = ENVIRONMENT.differences(machine)
    assert line.endswith(f": {there}, here {here}")
    assert machine.fingerprint() != ENVIRONMENT.fingerprint()


@pytest.mark.parametrize(
    "machine",
    [
        other(memory_bytes=1),
        other(cores_present=64),
        other(shared_memory_bytes=0),
        other(compiler=None),
        other_versions(hasten="9.9.9"),
        other_versions(numpy="2.0.0"),
        other_versions(python="3.11.99"),
        other_device(memory_bytes=1),
    ],
)
def test_what_does_not_decide_makes_no_other_machine(machine: Environment) -> None:
    assert ENVIRONMENT.differences(machine) == []
    assert machine.fingerprint() == ENVIRONMENT.fingerprint()


def test_every_difference_is_told() -> None:
    machine = msgspec.structs.replace(other_versions(torch="2.11.0", python="3.12.0"), cpu="Other")
    named = [line.split(":")[0] for line in ENVIRONMENT.differences(machine)]
    assert named == ["cpu", "python", "torch"]


def test_a_fingerprint_is_a_short_hex_digest_that_stays() -> None:
    again = other(versions=dict(reversed(ENVIRONMENT.versions.items())))
    assert len(ENVIRONMENT.fingerprint()) == 16
    assert int(ENVIRONMENT.fingerprint(), 16) >= 0
    assert again.fingerprint() == ENVIRONMENT.fingerprint()


def test_a_machine_without_known_versions_is_another_one() -> None:
    assert len(ENVIRONMENT.differences(other(versions={}))) == 2


def test_the_refusal_of_a_recipe_has_every_difference() -> None:
    machine = msgspec.structs.replace(other_versions(torch="2.11.0"), cpu="Other")
    message = str(other_machine("r.toml", ENVIRONMENT.differences(machine)))
    assert "cpu: Other, here Some CPU (AVX2)" in message
    assert "torch: 2.11.0, here 2.13.0" in message

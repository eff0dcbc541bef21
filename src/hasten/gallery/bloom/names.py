"""Names of made-up persons: a list of common ones, invented ones, and typing mistakes."""

import string

import numpy as np
import numpy.typing as npt

# Split from text, as lists of literals would take a line for each name.
GIVEN_NAMES = """
    james mary robert patricia john jennifer michael linda david elizabeth william barbara
    richard susan joseph jessica thomas sarah charles karen christopher lisa daniel nancy
    matthew sandra anthony ashley mark emily steven kimberly andrew donna paul michelle joshua
    carol kenneth amanda kevin melissa brian deborah george stephanie timothy rebecca ronald
    laura jason helen edward sharon jeffrey cynthia ryan kathleen jacob amy gary angela nicholas
    anna eric ruth jonathan olga stephen yvonne larry judith felix hans xavier ingrid zoe quentin
    fatima wojciech
""".split()  # noqa: SIM905

SURNAMES = """
    smith johnson williams brown jones garcia miller davis rodriguez martinez hernandez lopez
    gonzalez wilson anderson thomas taylor moore jackson martin lee perez thompson white harris
    sanchez clark ramirez lewis robinson walker young allen king wright scott torres nguyen hill
    flores green adams nelson baker hall rivera campbell mitchell carter roberts gomez phillips
    evans turner diaz parker cruz edwards collins reyes stewart morris morales murphy cook rogers
    gutierrez ortiz morgan cooper peterson bailey reed kelly howard ramos kim cox ward richardson
    watson brooks chavez wood james bennett gray mendoza ruiz hughes price alvarez castillo
    sanders patel myers long ross foster jimenez mueller schmidt schneider fischer weber wagner
    becker hoffmann koch bauer klein wolf schroeder neumann schwarz zimmermann krueger kowalski
    petrov quinn
""".split()  # noqa: SIM905

_SYLLABLES = """
    al an ar bel ber bo bri cal car chu da dek dor el en er fa fen gar gi gor ha hol il is ja jor
    ka kel ko la len li lo ma mir mo na nel no ol or pa per po qui ra ri ros sa sel sha ta tho ti
    ul ur va vel vi wa win xan ya yo za zel
""".split()  # noqa: SIM905

_INVENTED_SHARE = 0.3
_MISTYPED_SHARE = 0.15


def draw_names(rng: np.random.Generator, common: list[str], rows: int) -> list[str]:
    """Names with at least two letters each, most of them from ``common``, its first most often."""
    known = rng.choice(common, rows, p=_frequencies(len(common)))
    invented = ["".join(three) for three in rng.choice(_SYLLABLES, (rows, 3)).tolist()]
    names: list[str] = np.where(rng.random(rows) < _INVENTED_SHARE, invented, known).tolist()
    for row in np.flatnonzero(rng.random(rows) < _MISTYPED_SHARE):
        names[row] = _mistype(names[row], rng)
    return names


def _frequencies(count: int) -> npt.NDArray[np.float64]:
    # Real names follow a Zipf law with a flat head: a few are frequent, none is overwhelming.
    weights = 1.0 / np.arange(10.0, count + 10)
    frequencies: npt.NDArray[np.float64] = weights / weights.sum()
    return frequencies


def _mistype(name: str, rng: np.random.Generator) -> str:
    """Drop, double or replace one letter."""
    place = int(rng.integers(len(name)))
    letter = string.ascii_lowercase[rng.integers(26)]
    typed = ("", name[place] * 2, letter)[rng.integers(3)]
    return name[:place] + typed + name[place + 1 :]

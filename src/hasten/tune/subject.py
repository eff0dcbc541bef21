"""What is tuned, told apart from all others; and what is known of the same one already."""

import hashlib
from pathlib import Path

from hasten import __version__
from hasten.errors import HastenError
from hasten.measure.messages import Described
from hasten.records.finding import Place
from hasten.records.recipe import Evidence, read_recipe
from hasten.records.record import from_json
from hasten.records.tuning import Aim, Subject
from hasten.tune.files import EVIDENCE, RECIPE


def subject_of(task: str, seed: int, described: Described, aim: Aim) -> Subject:
    # Which may be of the gallery, and then among no files of the user's own.
    places = [described.task_place, described.model_place]
    return Subject(
        task=task,
        seed=seed,
        hasten=__version__,
        environment=described.environment,
        traits=described.traits,
        sources={
            **{each.path: _digest(each) for each in places if each is not None},
            **described.sources,
        },
        aim=aim,
    )


def earlier_tuning(folder: Path, subject: Subject) -> Evidence | None:
    """What a tuning of the same subject has left in ``folder``, whatever it came to."""
    try:
        content = (folder / EVIDENCE).read_bytes()
        evidence = from_json(content, Evidence, where=EVIDENCE)
    except (OSError, HastenError):
        return None  # there is none that could be used, and a new one will be written
    return evidence if evidence.subject == subject.digest() else None


def earlier_recipe(folder: Path, subject: Subject) -> Evidence | None:
    """The same where it came to a recipe, which nobody has edited since."""
    evidence = earlier_tuning(folder, subject)
    try:
        digest = hashlib.sha256((folder / EVIDENCE).read_bytes()).hexdigest()
        recipe = read_recipe(folder / RECIPE)
    except (OSError, HastenError):
        return None
    if evidence is None or evidence.speed is None or evidence.outcome != "recipe":
        return None
    tied = recipe.evidence_sha256 == digest and recipe.as_plan() == evidence.whole_plan()
    return evidence if tied else None


def _digest(place: Place) -> str:
    try:
        return hashlib.sha256(Path(place.path).read_bytes()).hexdigest()
    except OSError:
        return ""  # typed at a prompt, or shown by a path of another folder

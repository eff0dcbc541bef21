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


def earlier_recipe(folder: Path, subject: Subject) -> Evidence | None:
    """The evidence of a recipe in ``folder`` that was made of the same subject, and which nobody
    has edited since."""
    try:
        content = (folder / EVIDENCE).read_bytes()
        evidence = from_json(content, Evidence, where=EVIDENCE)
        recipe = read_recipe(folder / RECIPE)
    except (OSError, HastenError):
        return None  # there is none that could be used, and a new one will be written
    same = evidence.subject == subject.digest() and recipe.as_plan() == evidence.whole_plan()
    tied = recipe.evidence_sha256 == hashlib.sha256(content).hexdigest()
    return evidence if evidence.speed and evidence.outcome == "recipe" and same and tied else None


def _digest(place: Place) -> str:
    try:
        return hashlib.sha256(Path(place.path).read_bytes()).hexdigest()
    except OSError:
        return ""  # typed at a prompt, or shown by a path of another folder

"""Are fixes of source code worth keeping? Only if a task trains the same with them, and faster.

Nothing of the user's is written here: fixed files lie in the lab, and workers read them in place of
the user's own.
"""

from collections.abc import Callable, Sequence

import msgspec

from hasten.errors import HastenError
from hasten.measure.lab import Lab, Subject
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import Confirmation
from hasten.records.scan import AppliedFix, FixOutcome, FixProof, FixReport, FixTrial
from hasten.records.verdict import Control, NumericsClaim, SpeedClaim
from hasten.scan.proposal import Group, Proposal, is_run
from hasten.scan.rewriting import applied
from hasten.task.names import refuse_unknown
from hasten.tune.bench import decide_speed
from hasten.tune.conclude import conclude
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor
from hasten.tune.prove import Prover

NOT_RUN = "the task was not seen to run it, so that nothing could be shown"
CLASHES = "it changes the same text as another fix: run the command again"


def prove_fixes(
    task: str,
    proposal: Proposal,
    *,
    write: bool,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
    note: Callable[[FixTrial], None] = lambda trial: None,
) -> FixReport:
    """Make the fixes that leave the training of ``task`` the same and make it faster. ``note`` is
    called with each trial; without ``write`` what would be kept is only told."""
    refuse_unknown(task)
    if not proposal.groups:
        report = proposal.finish((), write=write)
        return msgspec.structs.replace(report, proof=FixProof(task=task, trials=()))
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        described = lab.describe()
        tell("watching which of the lines it runs")
        run, idle = _by_running(lab, proposal)
        prover = Prover(lab, described.traits, seed, described.offers)
        trier = FixTrier(lab, prover, proposal, tell, note)
        for group in idle:
            trier.leave(group, "not_run", NOT_RUN)
        trier.try_all(run)
    proof = FixProof(
        task=task,
        trials=tuple(trier.trials),
        environment=described.environment,
        control=trier.control,
    )
    return msgspec.structs.replace(proposal.finish(trier.kept, write=write), proof=proof)


def _by_running(lab: Lab, proposal: Proposal) -> tuple[list[Group], list[Group]]:
    """Groups that the task runs, and others."""
    files = {group[0].path: proposal.sources[group[0].path] for group in proposal.groups}
    ran = lab.lines_run([source.path.resolve() for source in files.values()])
    lines = {path: ran[source.path.resolve()] for path, source in files.items()}
    if not any(lines.values()):
        raise HastenError(
            f"{lab.task} loads none of the files with something to fix: {', '.join(files)}.",
            fix="Name a task that trains with them, or the paths of the code that this one runs.",
        )
    run = [each for each in proposal.groups if _is_run(each, proposal, lines[each[0].path])]
    return run, [each for each in proposal.groups if each not in run]


def _is_run(group: Group, proposal: Proposal, lines: frozenset[int]) -> bool:
    return is_run(group, proposal.sources[group[0].path], lines)


class FixTrier:
    """Tries fixes on top of what it has kept. ``trials`` has all, in order."""

    def __init__(
        self,
        lab: Lab,
        prover: Prover,
        proposal: Proposal,
        tell: Callable[[str], None],
        note: Callable[[FixTrial], None],
    ) -> None:
        self._lab, self._prover, self._proposal = lab, prover, proposal
        self._tell, self._note = tell, note
        self._incumbent: Plan | Subject = NAIVE
        self.control: Control | None = None
        self.kept: list[Group] = []
        self.trials: list[FixTrial] = []

    def try_all(self, groups: Sequence[Group]) -> None:
        """All together; if that does not hold, one group after the other."""
        made = self._proposal.texts(groups)[1]
        if len(made) > 1 and self._try(made, together=True):
            for group in groups:
                if group not in made:
                    self.leave(group, "not_tried", CLASHES)
            return
        for group in groups:
            if group in self._proposal.texts([*self.kept, group])[1]:
                self._try([group], together=False)
            else:
                self.leave(group, "not_tried", CLASHES)

    def leave(self, group: Group, outcome: FixOutcome, why: str) -> None:
        self._add(FixTrial(fixes=_fixes([group]), together=False, outcome=outcome, why=why))

    def _try(self, groups: Sequence[Group], *, together: bool) -> bool:
        """Whether they are kept."""
        fixes = _fixes(groups)
        places = ", ".join(f"{each.path}:{each.line}" for each in fixes)
        subject = self._subject([*self.kept, *groups])
        self._tell(f"proving that the training stays the same with {places} fixed")
        numerics = prove_same(self._prover, subject)
        confirmation = speed = None
        if numerics.verdict == "proven":
            confirmation, speed = self._time(subject)
        outcome, why = judge(numerics, confirmation, speed)
        self._add(
            FixTrial(
                fixes=fixes,
                together=together,
                outcome=outcome,
                why=why,
                numerics=numerics,
                speed=speed,
            )
        )
        if outcome == "kept":
            self.kept += groups
            self._incumbent = subject
        return outcome == "kept"

    def _time(self, subject: Subject) -> tuple[Confirmation, SpeedClaim | None]:
        if self.control is None:
            self.control = measure_noise(self._lab, NAIVE, self._tell)
        floor = noise_floor(self.control)
        confirmation = confirm(self._lab, self._incumbent, subject, floor, self._tell)
        return confirmation, claim_speed(confirmation, floor)

    def _subject(self, groups: Sequence[Group]) -> Subject:
        """The task with these fixed, in files of the lab's."""
        folder = self._lab.folder / f"fixed-{len(self.trials)}"
        folder.mkdir()
        edited = {}
        for number, (path, text) in enumerate(self._proposal.texts(groups)[0].items()):
            file = folder / f"{number}.py"
            file.write_bytes(self._proposal.content(path, text))
            edited[str(self._proposal.sources[path].path.resolve())] = str(file)
        return Subject(self._lab.task, edited=edited)

    def _add(self, trial: FixTrial) -> None:
        self.trials.append(trial)
        self._note(trial)


def prove_same(prover: Prover, subject: Subject) -> NumericsClaim:
    """To the bit; where the steps are not, as far as rounding goes."""
    claim = prover.prove(subject, Rung.BITWISE)
    if claim.verdict == "proven" or claim.checks[-1].name != "bitwise":
        return claim
    return prover.prove(subject, Rung.ROUNDING)


def judge(
    numerics: NumericsClaim, confirmation: Confirmation | None, speed: SpeedClaim | None
) -> tuple[FixOutcome, str]:
    """Fails closed: kept is only what is proven the same, and proven faster."""
    if numerics.verdict != "proven":
        return "not_the_same" if numerics.verdict == "refuted" else "not_proven", numerics.why()
    _, verdict, why = conclude((), confirmation, speed, numerics)
    if verdict == "proven" and speed is not None:
        return "kept", why
    if speed is None:
        return "not_proven", why
    return "slower" if decide_speed(speed) == "slower" else "not_faster", why


def _fixes(groups: Sequence[Group]) -> tuple[AppliedFix, ...]:
    return tuple(applied(each) for group in groups for each in group)

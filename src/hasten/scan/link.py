"""Files together: a function that is called from a hot loop is hot, in whichever file it stands.

Names are followed as far as imports and class names tell; a method that is called on something
unknown is taken for the one of its name only where the tree has hardly another.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hasten.records.finding import Place
from hasten.records.scan import CodeFinding, Fix, HotLoop, Severity, Spared
from hasten.scan.analysis import EVERYBODYS, Analysis, Called, Candidate, Defined
from hasten.scan.heat import AT_LAST, METRICS, Heat, Local
from hasten.scan.rule import Rule

ALIKE = 3
"""So many methods of one name in a tree may all be meant by a call."""
LEAST_LETTERS = 4
"""Of a name that may tell a class."""
FREQUENCY: dict[Heat, Severity] = {
    Heat.ELEMENT: "high",
    Heat.STEP: "medium",
    Heat.EPOCH: "low",
    Heat.ONCE: "low",
}

Key = tuple[str, int]
"""A function: its file and its number there."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a function is hot: the place from which it is called."""

    path: str
    line: int


class Tree:
    def __init__(self, analyses: Mapping[str, Analysis], hot: Collection[Place] = ()) -> None:
        """By path, with "/" between folders. ``hot`` are lines that are known to run every step,
        and with them their functions."""
        self._analyses = analyses
        self._by_name: dict[str, list[Key]] = {}
        self._bases: dict[str, set[str]] = {}
        self._derived: dict[str, frozenset[str]] = {}
        for path, analysis in analyses.items():
            for number, function in enumerate(analysis.functions):
                last = function.name.rpartition(".")[2]
                self._by_name.setdefault(last, []).append((path, number))
                if function.owner:
                    self._bases.setdefault(function.owner, set()).update(function.bases)
        self.heat: dict[Key, Heat] = {}
        self.reasons: dict[Key, Reason] = {}
        self._called: dict[Key, list[Called]] = {}
        self._resolved: dict[tuple[Key, str, str], Sequence[Key]] = {}
        self._training: dict[str, dict[tuple[int, int], int]] = {}
        """Of each file the lines of loops that train in every turn by a function that they call,
        and how many loops that nobody understands these are."""
        self._spread([each for place in hot if (each := self._around(place)) is not None])

    def _around(self, place: Place) -> Key | None:
        """The innermost function that the line stands in."""
        analysis = self._analyses.get(place.path)
        found = [
            (each.line, number)
            for number, each in enumerate(analysis.functions if analysis else ())
            if number and each.line <= place.line <= each.end_line
        ]
        return (place.path, max(found)[1]) if found else None

    def _spread(self, hot: Sequence[Key]) -> None:
        open_: list[Key] = []
        for path, analysis in self._analyses.items():
            for number, function in enumerate(analysis.functions):
                self.heat[path, number] = function.heat
                if function.heat >= Heat.STEP:
                    open_.append((path, number))
            for call in analysis.called:
                self._called.setdefault((path, call.caller), []).append(call)
                if call.known >= Heat.STEP:
                    open_.append((path, call.caller))
        training, looping = self._train()
        for key in (*hot, *training):
            self.heat[key] = max(self.heat[key], Heat.STEP)
            open_.append(key)
        self._follow([*open_, *looping])
        self._known = dict(self.heat)
        self._follow(self._assume())

    def _train(self) -> tuple[list[Key], list[Key]]:
        """Functions that train for a step by what they call, and those with a loop that does so in
        every turn. The last of each is the first in its file: it is followed first."""
        open_ = [
            (path, number)
            for path, analysis in self._analyses.items()
            for number, function in enumerate(analysis.functions)
            if function.trains and "epoch" not in function.name
        ]
        callers = self._callers() if open_ else {}
        found, looping = set(open_), set[Key]()
        while open_:
            for caller, call in callers.get(open_.pop(), ()):
                if call.loop != (0, 0):
                    looping.add(caller)
                    self._training.setdefault(caller[0], {})[call.loop] = call.inner
                elif caller not in found and not self._function(caller).is_seldom:
                    found.add(caller)
                    open_.append(caller)
        return sorted(found, reverse=True), sorted(looping, reverse=True)

    def _callers(self) -> dict[Key, list[tuple[Key, Called]]]:
        """Of each function who calls it, and not only now and then."""
        found: dict[Key, list[tuple[Key, Called]]] = {}
        for caller, calls in self._called.items():
            for call in calls:
                if not call.rare and not call.gives:
                    for callee in self._resolve(caller, call):
                        found.setdefault(callee, []).append((caller, call))
        return found

    def _within(self, path: str, place: Called | Candidate, function: Heat) -> Heat:
        """How often a place runs where its function runs as often as that."""
        heat = Local(place.known, place.inner).within(function)
        for (first, last), outer in self._training.get(path, {}).items():
            if first <= place.line <= last and place.known < Heat.STEP:
                inner = max(place.inner - outer, 0)
                heat = max(heat, Local(Heat.STEP, inner).within(function))
        return heat

    def _assume(self) -> list[Key]:
        """What is not known to be called only now and then runs as often as its parameters say."""
        seldom: set[Key] = set()
        often: set[Key] = set()
        for caller, calls in self._called.items():
            for call in calls:
                is_seldom = call.rare or self._function(caller).is_seldom
                callees = seldom if is_seldom else often
                callees.update(each for each in self._resolve(caller, call) if each != caller)
        assumed = []
        for path, analysis in self._analyses.items():
            for number, function in enumerate(analysis.functions):
                key = path, number
                if function.assumed > self.heat[key] and (key in often or key not in seldom):
                    self.heat[key] = function.assumed
                    assumed.append(key)
        return assumed

    def _follow(self, open_: list[Key]) -> None:
        """From what is hot to what it calls."""
        seen: set[tuple[Key, Heat]] = set()
        while open_:
            key = open_.pop()
            if (key, self.heat[key]) in seen:
                continue
            seen.add((key, self.heat[key]))
            for call in self._called.get(key, ()):
                if call.rare:
                    continue
                heat = self._within(key[0], call, self.heat[key])
                if heat < Heat.STEP:
                    continue
                for callee in self._resolve(key, call):
                    if not self._runs_as_often(callee, call):
                        continue
                    if self.heat[callee] < heat:
                        self.heat[callee] = heat
                        self.reasons[callee] = Reason(key[0], call.line)
                        open_.append(callee)

    def _runs_as_often(self, key: Key, call: Called) -> bool:
        """What a loop goes over does if it gives bit by bit; what does an epoch never does, nor
        what a metric comes to."""
        callee = self._function(key)
        if call.gives and not callee.is_generator:
            return False
        return "epoch" not in callee.name and not self._comes_last(callee)

    def _comes_last(self, function: Defined) -> bool:
        if function.name.rpartition(".")[2] not in AT_LAST or not function.owner:
            return False
        return any(METRICS.search(each) for each in self._ancestors(function.owner))

    def _resolve(self, caller: Key, call: Called) -> Sequence[Key]:
        meant = caller, call.kind, call.name
        found = self._resolved.get(meant)
        if found is None:
            found = self._resolved[meant] = self._find(caller, call)
        return found

    def _find(self, caller: Key, call: Called) -> Sequence[Key]:
        path = caller[0]
        module, _, last = call.name.rpartition(".")
        named = self._by_name.get(last, [])
        if not named:
            return ()
        if call.kind == "self":
            return self._methods(caller, named)
        if call.kind == "method":
            return self._of_any(named, module, last) or self._of_file(named, module)
        own = [each for each in named if each[0] == path and not self._is_method(each)]
        if own:
            return own
        if not module:
            return ()
        tail = module.lstrip(".").replace(".", "/")
        imported = [
            each for each in named if not self._is_method(each) and _stem(each[0]).endswith(tail)
        ]
        if imported:
            return imported
        plain = [each for each in named if not self._is_method(each)]
        return plain if len(plain) == 1 else ()

    def _of_any(self, named: list[Key], receiver: str, name: str) -> list[Key]:
        """Methods of a class that is called as what they are called on: of ``RolloutBuffer`` for
        ``buffer.add``. Else all, where the tree has hardly another of the name."""
        methods = [each for each in named if self._function(each).owner]
        said = receiver.replace("_", "").lower()
        if len(said) >= LEAST_LETTERS:
            meant = [each for each in methods if self._is_called(said, each)]
            if meant:
                return meant
        if name in EVERYBODYS:
            return []
        return methods if len(methods) <= ALIKE or self._are_of_one_family(methods) else []

    def _is_called(self, said: str, method: Key) -> bool:
        """Whether the method's class is called so, or a class of the tree that it is derived
        from."""
        owner = self._function(method).owner
        if owner.lower().endswith(said):
            return True
        return any(
            each.lower().endswith(said) for each in self._ancestors(owner) & self._bases.keys()
        )

    def _are_of_one_family(self, methods: list[Key]) -> bool:
        """Whether one class says what all of these do, each in its way, and not now and then."""
        if any(self._function(each).is_seldom for each in methods):
            return False
        owners = {self._function(each).owner for each in methods}
        first, *others = ({each, *self._ancestors(each)} for each in owners)
        common = first.intersection(*others)
        return any(each in self._bases for each in common)

    def _of_file(self, named: list[Key], receiver: str) -> list[Key]:
        """Functions of a file that is called as what they are called on: ``reduce`` of
        "sums.py" for ``package.sums.reduce``."""
        return [
            each
            for each in named
            if not self._is_method(each) and _stem(each[0]).rpartition("/")[2] == receiver
        ]

    def _methods(self, caller: Key, named: list[Key]) -> list[Key]:
        """Of the caller's class, of those that it is derived from and that are derived from it."""
        owner = self._function(caller).owner
        family = {owner, *self._ancestors(owner)}
        return [
            each
            for each in named
            if (other := self._function(each).owner)
            and (other in family or owner in self._ancestors(other))
        ]

    def _ancestors(self, owner: str) -> frozenset[str]:
        """Names of all classes that a class is derived from, in whichever files they stand."""
        known = self._derived.get(owner)
        if known is None:
            found: set[str] = set()
            open_ = [owner]
            while open_:
                bases = self._bases.get(open_.pop(), set()) - found
                found |= bases
                open_ += bases
            known = self._derived[owner] = frozenset(found)
        return known

    def _is_method(self, key: Key) -> bool:
        function = self._function(key)
        return (
            bool(function.owner)
            and function.name == f"{function.owner}.{function.name.rpartition('.')[2]}"
        )

    def _function(self, key: Key) -> Defined:
        return self._analyses[key[0]].functions[key[1]]

    def findings(self, rules: Mapping[str, Rule]) -> list[CodeFinding]:
        found = []
        for path, analysis in self._analyses.items():
            for each in analysis.candidates:
                finding = self._finding(path, each, rules[each.code])
                if finding is not None:
                    found.append(finding)
        return found

    def callees(self, key: Key, lines: tuple[int, int]) -> set[Key]:
        """Functions that run as often as some lines of another: those that are called there, and
        those that these call."""
        first, last = lines
        calls = [each for each in self._called.get(key, ()) if first <= each.line <= last]
        found: set[Key] = set()
        open_ = [(key, calls)]
        while open_:
            caller, calls = open_.pop()
            called = {
                callee
                for call in calls
                if not call.rare
                for callee in self._resolve(caller, call)
                if self._runs_as_often(callee, call)
            }
            open_ += [(each, self._called.get(each, [])) for each in called - found]
            found |= called
        return found

    def kept_waiting(self, rules: Mapping[str, Rule]) -> set[tuple[str, str]]:
        """Groups of files whose loop calls a function that waits."""
        waiting: dict[Key, set[str]] = {}
        for path, analysis in self._analyses.items():
            for each in analysis.candidates:
                if rules[each.code].waits and self._heat_of(path, each) >= each.least:
                    waiting.setdefault((path, each.function), set()).add(each.group)
        return {
            (path, each.group)
            for path, function in waiting
            for each in self._analyses[path].candidates
            if each.function == function
            and each.group in waiting[path, function]
            and each.group
            and self.callees((path, function), each.loop) & waiting.keys() - {(path, function)}
        }

    def seldom(self) -> list[Spared]:
        """Places that would be findings if they ran more often."""
        return [
            Spared(code=each.code, path=path, line=each.line, reason="seldom")
            for path, analysis in self._analyses.items()
            for each in analysis.candidates
            if self._heat_of(path, each) < each.least
        ]

    def _heat_of(self, path: str, each: Candidate) -> Heat:
        heats = self.heat if each.assumes else self._known
        heat = self._within(path, each, heats[path, each.function])
        return min(heat, Heat.EPOCH) if each.rare else heat

    def _finding(self, path: str, each: Candidate, rule: Rule) -> CodeFinding | None:
        heat = self._heat_of(path, each)
        if heat < each.least:
            return None
        return CodeFinding(
            code=each.code,
            name=rule.name,
            path=path,
            line=each.line,
            column=each.column,
            end_line=each.end_line,
            end_column=each.end_column,
            severity=rule.severity or FREQUENCY[heat],
            message=each.message,
            why=rule.why,
            fix=self._without_harm(each.fix) if rule.stops_gradients else each.fix,
            loop=self._loop(path, each, heat),
            group=each.group,
        )

    @cached_property
    def _takes_gradients(self) -> str:
        """A forward pass that does, if the tree has one."""
        return next(
            (
                f"`{function.name}` ({path}:{function.line})"
                for path, analysis in self._analyses.items()
                for function in analysis.functions
                if function.takes_gradients
            ),
            "",
        )

    def _without_harm(self, fix: Fix | None) -> Fix | None:
        """As it is told where a model fails without gradients, which may be the one here."""
        if fix is None or not self._takes_gradients:
            return fix
        but = f"Not where {self._takes_gradients} may run, which takes gradients itself."
        return Fix(safety="display", about=f"{fix.about} {but}")

    def _loop(self, path: str, each: Candidate, heat: Heat) -> HotLoop | None:
        """The loop that makes it hot: its own, or the one that its function is called from."""
        if heat < Heat.EPOCH:
            return None
        key = path, each.function
        function = self._function(key)
        if each.known < Heat.STEP <= self.heat[key]:
            reason = self.reasons.get(key)
            place = (
                Place(path=reason.path, line=reason.line)
                if reason
                else Place(path=path, line=function.line)
            )
            words = f"{function.name} is called there" if reason else f"in {function.name}"
        else:
            place, words = Place(path=path, line=each.loop[0] or function.line), "this loop"
        runs = {Heat.EPOCH: "epoch", Heat.STEP: "step", Heat.ELEMENT: "element"}[heat]
        return HotLoop(place=place, runs=runs, words=words)  # type: ignore[arg-type]


def _stem(path: str) -> str:
    stem = path.removesuffix(".py")
    return stem.removesuffix("/__init__")

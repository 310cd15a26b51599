"""A plan ranks all protocols that answer a question, and has all settings to run one of them.

A plan is immutable and can be saved. Its file holds the question, the budget, the crowd, and all
candidates with their options and calibrated parameters. It also names the chosen protocol. Both
sides of a collection (the devices and the analyzer) build the chosen protocol from this file. A
side refuses the plan if its code calibrates the protocol differently. A digest of the whole content
identifies the plan and shows whether the file was changed.
"""

import json
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import HeadcountError, Infeasible, InvalidParameter, UnreadableData
from headcount.core.protocol import Protocol, least_users
from headcount.core.table import Table, counted_people, exact, short, size
from headcount.core.task import Task, task_from
from headcount.core.work import shown_time
from headcount.core.writing import write_file
from headcount.planner.cache import cached, digest
from headcount.planner.candidate import Candidate, Refusal
from headcount.planner.margin import Margin
from headcount.planner.wishes import (
    LimitArguments,
    Purpose,
    Wishes,
    margin_miss,
    missed,
    purpose_of,
)
from headcount.planner.within import assess_within
from headcount.protocols.registry import outside_names, own_names, protocol, protocol_class
from headcount.theory import Bound, bounds

FORMAT, VERSION = "headcount.plan", 3
MOST_BYTES = 2**28  # the largest file that is read as a plan
# A protocol that sends more than this many messages per person, or whose messages take one core
# more than this many seconds, is chosen only as a last resort (see `_best`).
MANY_MESSAGES = 100
MANY_SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    """The candidates in the order of their expected errors, and the refused protocols.

    `chosen` names the protocol to run, which is the best candidate unless the caller chooses
    another. The best candidate has the least expected error among the candidates that meet three
    conditions: their messages take one core at most five minutes, they send at most 100 messages
    per person, and they rely only on what is usual for their trust model. The first condition is
    dropped if no candidate meets it. The third is dropped if no candidate meets all conditions that
    are left. If that is not enough, the second is dropped, too. For a collection, the best
    candidate always has the least expected error of all.
    """

    task: Task
    budget: Budget
    crowd: Crowd
    confidence: float
    purpose: Purpose
    candidates: tuple[Candidate, ...]
    refused: tuple[Refusal, ...]
    bounds: tuple[Bound, ...]
    chosen: str | None

    def __getitem__(self, name: str) -> Candidate:
        """The candidate whose protocol has this name."""
        for candidate in self.candidates:
            if candidate.protocol == name:
                return candidate
        for refusal in self.refused:
            if refusal.protocol == name:
                raise Infeasible(str(refusal), nearest=refusal.feasible)
        raise InvalidParameter(f"`protocol` must be a protocol of the plan, got {name!r}")

    @property
    def best(self) -> Candidate:
        """The chosen candidate. Raises `Infeasible` if every protocol is refused."""
        if self.chosen is not None:
            return self[self.chosen]
        if not self.refused:
            raise InvalidParameter(f"no protocol of this plan answers the task: {self.task}")
        # Protocols that could run but miss a requirement come last. The nearest of them is at the
        # very end. If there are none, take the first protocol that other settings make feasible.
        nearest = self.refused[-1]
        if not nearest.missed:
            nearest = next((refusal for refusal in self.refused if refusal.feasible), nearest)
        raise Infeasible(f"no protocol fits: {nearest}", nearest=nearest.feasible)

    def best_of(self, trust: Trust) -> Candidate | None:
        """The best candidate of one trust model, or None if there is no candidate."""
        ours = [candidate for candidate in self.candidates if candidate.trust == trust]
        return _best(ours, self.purpose)

    def choose(self, name: str) -> "Plan":
        """The same plan, with another of its candidates as the chosen one."""
        return replace(self, chosen=self[name].protocol)

    def protocol(self) -> Protocol:
        """The chosen protocol, calibrated. Parameters that differ from the plan are refused."""
        wanted = self.best
        built = protocol(
            wanted.protocol, self.task, self.budget, self.crowd, **dict(wanted.options)
        )
        for what, computed, planned in (
            ("trust model", built.trust, wanted.trust),
            ("guarantee", built.guarantee, wanted.guarantee),
            ("parameters", dict(built.parameters), dict(wanted.parameters)),
        ):
            if computed != planned:
                raise InvalidParameter(
                    f"this version of headcount computes the {what} {computed} for "
                    f"{wanted.protocol}, but the plan says {planned}",
                    hint="plan again, or use the version that made the plan",
                )
        return built

    # For people -------------------------------------------------------------------------------

    def table(self) -> Table:
        """A table of the candidates, in order. Notes give refusals and bounds from theory."""
        collects = self.purpose is Purpose.COLLECTION
        rows = [_collection_cells(one) if collects else _cells(one) for one in self.candidates]
        left, right = _COLLECTION_COLUMNS if collects else _COLUMNS
        errors: list[tuple[str, Callable[[Candidate], float]]] = [
            ("standard error", lambda candidate: candidate.standard_error),
            (f"± {100 * self.confidence:.4g} %", lambda candidate: candidate.margin),
        ]
        if self.task.ranking_note:
            errors.insert(0, ("total error", lambda candidate: candidate.expected_error))
        return Table(
            title=f"{self.task}: {described(self.budget, self.crowd)}",
            columns=(*left, *(name for name, _ in errors), *right),
            rows=tuple(
                (*first, *(size(of(one)) for _, of in errors), *last)
                for one, (first, last) in zip(self.candidates, rows, strict=True)
            ),
            words=len(left),
            spare=(errors[-1][0], *_COLLECTION_SPARE) if collects else _SPARE,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        for refusal in self.refused:
            settings = ", ".join(
                f"{name}={exact(value)}" for name, value in refusal.feasible.items()
            )
            advice = f" (feasible with {settings})" if settings else ""
            yield f"refused: {refusal}{advice}"
        present = {candidate.trust for candidate in self.candidates}
        present |= {refusal.trust for refusal in self.refused}
        for trust in (trust for trust in Trust if trust in present):
            known = {
                bound.name.rpartition(".")[2]: bound
                for bound in self.bounds
                if bound.trust == trust and bound.kind == "lower bound"
            }
            if bound := known.get("pure-lower") or known.get("lower"):
                least = f"the {bound.measure} is at least {size(bound.value)}"
                yield f"theory: in {trust} trust, {least}. {bound.statement}"
        if Trust.SHUFFLE in present:
            yield (
                f"people who do not answer: with shuffle trust, at least {self.crowd.users:,} "
                "people must take part, since their messages hide each other; with central or "
                "local trust, fewer people only make the error larger"
            )
        best = [candidate for candidate in map(self.best_of, Trust) if candidate is not None]
        if best:
            names = ", ".join(candidate.protocol for candidate in best)
            yield f"best of each trust model: {names}"
        if self.purpose is Purpose.COLLECTION:
            yield from self._collection_notes()
        else:
            yield from self._notes_on_others(best)
        yield "Standard errors are due to privacy noise, for worst-case data."
        if self.task.ranking_note:
            yield self.task.ranking_note

    def _notes_on_others(self, best: list[Candidate]) -> Iterator[str]:
        for candidate in (candidate for candidate in self.candidates if candidate not in best):
            name = candidate.protocol
            if candidate.seconds > MANY_SECONDS:
                yield f"not chosen: {name} takes one core about {shown_time(candidate.seconds)}"
            elif candidate.messages_per_user > MANY_MESSAGES:
                yield f"not chosen: {name} sends more than {MANY_MESSAGES} messages per person"
            elif not candidate.guarantee.relies_as_usual:
                yield f"not chosen: {name} relies on {candidate.guarantee.relies_on}"

    def _collection_notes(self) -> Iterator[str]:
        for candidate in self.candidates:
            if not candidate.guarantee.relies_as_usual:
                yield f"{candidate.protocol} relies on {candidate.guarantee.relies_on}"
        relying = [one.protocol for one in self.candidates if one.relies_on_honest_people]
        if relying:
            yield f"these protocols rely on honest people for privacy: {', '.join(relying)}"
        yield (
            "Bytes are the size of a bundle of sealed messages. Influence is how far one dishonest "
            "person can shift the answer if the shuffler refuses bundles of other sizes."
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    # On disk ----------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A digest of the plan's whole content. It identifies the plan."""
        return digest(self._document())

    def to_dict(self) -> dict[str, Any]:
        """The plan as a dictionary for JSON, with its digest."""
        return {**self._document(), "digest": self.digest}

    def _document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task.to_dict(),
            "budget": asdict(self.budget),
            "crowd": asdict(self.crowd),
            "least_users": {str(trust): least_users(trust, self.crowd) for trust in Trust},
            "confidence": self.confidence,
            "purpose": self.purpose,
            "chosen": self.chosen,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "theory": [bound.to_dict() for bound in self.bounds],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Plan":
        """The plan that `to_dict` wrote. A document that was changed is refused."""
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            raise UnreadableData(
                f"a plan must be of format {FORMAT!r}, version {VERSION}, got "
                f"{document.get('format')!r}, version {document.get('version')!r}"
            )
        try:
            plan = cls(
                task=task_from(document["task"]),
                budget=Budget(**document["budget"]),
                crowd=Crowd(**document["crowd"]),
                confidence=checks.confidence(document["confidence"]),
                purpose=Purpose(document["purpose"]),
                candidates=tuple(map(Candidate.from_dict, document["candidates"])),
                refused=tuple(map(Refusal.from_dict, document["refused"])),
                bounds=tuple(map(Bound.from_dict, document["theory"])),
                chosen=document["chosen"],
            )
            same = plan.to_dict() == document
        except (
            HeadcountError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            raise UnreadableData(f"a plan must be complete and valid, got: {error}") from None
        if not same:
            raise UnreadableData(
                f"a plan must have the digest that was saved with it, "
                f"{str(document.get('digest'))[:12]}, got {plan.digest[:12]}",
                hint="the plan was changed after it was saved",
            )
        return plan

    def save(self, path: Path | str) -> None:
        """Write a JSON file that `load` reads."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_file(Path(path), text + "\n")

    @classmethod
    def load(cls, path: Path | str) -> "Plan":
        """Read a plan that `save` wrote."""
        try:
            document = json.loads(_contents(Path(path)).decode(), object_pairs_hook=_unique_keys)
        except OSError as error:
            raise UnreadableData(f"{str(path)!r} must be a plan, got: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise UnreadableData(
                f"{str(path)!r} must be a plan, got a file that is not JSON"
            ) from None
        if not isinstance(document, Mapping):
            raise UnreadableData(f"{str(path)!r} must be a plan, got JSON of another kind")
        return cls.from_dict(document)


def plan(
    task: Task,
    budget: Budget,
    crowd: Crowd,
    *,
    trust: Trust | str | None = None,
    purpose: Purpose | str = Purpose.ACCURACY,
    exact: bool = False,
    margin: Margin | None = None,
    confidence: float = 0.95,
    progress: Callable[[str, float], None] = lambda name, share: None,
    keep: Callable[[Protocol], None] = lambda built: None,
    **limits: Unpack[LimitArguments],
) -> Plan:
    """Rank every protocol for a task, a budget and a crowd by its expected error.

    If `trust` is given, protocols of other trust models are left out. Protocols that exceed one of
    the following limits are refused. A limit is given as a keyword argument:

    - `max_messages`: the expected number of messages per person
    - `max_slots`: the number of slots in a person's bundle, each for one message or dummy
    - `max_bytes`: the size of a bundle in bytes if each message is sealed (encrypted)
    - `max_influence`: how far one dishonest person can shift the answer, up or down

    A protocol that can trade messages or slots for error uses the options with the least error
    within the limits. Protocols are also refused if they miss the `margin`. With `exact=True`, they
    are refused if their guarantee is only an upper bound.

    `purpose="collection"` ranks the protocols that can collect values from real people. It leaves
    out central trust. It also refuses protocols that need more than 64 slots or 16,000 bytes per
    person, or that let one person shift the answer by more than ten standard errors. The remaining
    protocols are ranked by error. Limits that are given replace these defaults.

    Results are cached on disk, so that planning again takes no time. Results of protocols from
    outside Headcount are not cached. `keep` is called with each protocol that is built.

        found = plan(Mean(0, 120), Budget(1, 1e-6), Crowd(20_000))
        found.best, found.candidates, found.refused, found.protocol(), found.save("plan.json")
    """
    checks.instance("task", task, Task)
    checks.instance("budget", budget, Budget)
    checks.instance("crowd", crowd, Crowd)
    confidence = margin.confidence if margin else checks.confidence(confidence)
    only = trust_of(trust)
    wishes = Wishes(purpose_of(purpose), exact=exact, **limits)
    wishes.check_trust(only)
    question = {
        "plan": task.to_dict(),
        "budget": asdict(budget),
        "crowd": asdict(crowd),
        "confidence": confidence,
        "trust": only,
        "wishes": wishes.to_dict(),
    }
    # Results of protocols from outside Headcount are not cached, since their code may change.
    registered = _included(outside_names(task, only), task, wishes)

    def assessed(names: list[str], *, before: int, after: int) -> list[Candidate | Refusal]:
        results = []
        for done, name in enumerate(names, before):
            progress(name, done / (before + len(names) + after))
            results.append(assess_within(name, task, budget, crowd, wishes, confidence, keep))
        return results

    def compute() -> dict[str, Any]:
        names = _included(own_names(task, only), task, wishes)
        results = assessed(names, before=0, after=len(registered))
        return {
            "candidates": [result.to_dict() for result in results if isinstance(result, Candidate)],
            "refused": [result.to_dict() for result in results if isinstance(result, Refusal)],
            "theory": [bound.to_dict() for bound in bounds(task, budget, crowd)],
        }

    def parse(answer: Any) -> tuple[list[Candidate], list[Refusal], tuple[Bound, ...]]:
        candidates = [Candidate.from_dict(document) for document in answer["candidates"]]
        refused = [Refusal.from_dict(document) for document in answer["refused"]]
        own = own_names()
        results: list[Candidate | Refusal] = [*candidates, *refused]
        for result in results:
            if result.protocol not in own or only not in (None, result.trust):
                raise ValueError(result.protocol)  # the stored answer belongs to another question
        return candidates, refused, tuple(map(Bound.from_dict, answer["theory"]))

    candidates, refused, known = cached(question, compute, parse)
    others = assessed(registered, before=len(own_names()), after=0)
    candidates += [result for result in others if isinstance(result, Candidate)]
    refused += [result for result in others if isinstance(result, Refusal)]
    fitting, others_missed = [], []
    for candidate in sorted(candidates, key=lambda candidate: candidate.expected_error):
        misses = [*wishes.misses(candidate), *margin_miss(candidate, margin, task, crowd.users)]
        if misses:
            beyond = max(miss.times for miss in misses)
            others_missed.append((beyond, missed(candidate, misses)))
        else:
            fitting.append(candidate)
    others_missed.sort(key=lambda pair: pair[0])  # the nearest first; ties remain sorted by error
    best = _best(fitting, wishes.purpose)
    return Plan(
        task=task,
        budget=budget,
        crowd=crowd,
        confidence=confidence,
        purpose=wishes.purpose,
        candidates=tuple(fitting),
        refused=(*refused, *(refusal for _, refusal in reversed(others_missed))),
        bounds=known,
        chosen=None if best is None else best.protocol,
    )


def trust_of(trust: Trust | str | None) -> Trust | None:
    """The trust model with this name; None stays None."""
    return None if trust is None else Trust(checks.choice("trust", trust, list(Trust)))


def _contents(path: Path) -> bytes:
    """The bytes of a file. Pipes, which may block, and huge files are refused."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "not a regular file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(None, f"more than {MOST_BYTES:,} bytes")
    return content


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object as a dictionary. Repeated keys are refused as ambiguous."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def described(budget: Budget, crowd: Crowd) -> str:
    """A description of a budget and a crowd."""
    return f"{crowd_words(crowd)}, ε = {short(budget.epsilon)}, δ = {short(budget.delta)}"


def crowd_words(crowd: Crowd) -> str:
    """A description of a crowd."""
    honest = "" if crowd.honest == crowd.users else f", {crowd.honest:,} of them honest"
    return f"{counted_people(crowd.users)}{honest}"


def _included(names: list[str], task: Task, wishes: Wishes) -> list[str]:
    """The protocols whose trust model the wishes include."""
    return [name for name in names if wishes.include(protocol_class(name, task).trust)]


_COLUMNS = (("protocol", "trust"), ("messages", "bits", "local ε", "guarantee"))
_SPARE = ("trust", "bits", "local ε", "guarantee")
_COLLECTION_COLUMNS = (("protocol",), ("slots", "bytes", "influence", "shuffler"))
_COLLECTION_SPARE = ("bytes", "shuffler")  # columns dropped after the margin if space is short
_Cells: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # the cells before and after the errors


def _cells(candidate: Candidate) -> _Cells:
    return (candidate.protocol, str(candidate.trust)), (
        size(candidate.messages_per_user),
        size(candidate.bits_per_user),
        size(candidate.local_epsilon),
        "exact" if candidate.guarantee.exact else "upper bound",
    )


def _collection_cells(candidate: Candidate) -> _Cells:
    return (candidate.protocol,), (
        "–" if candidate.slots is None else size(candidate.slots),
        "–" if candidate.sealed_bytes is None else size(candidate.sealed_bytes),
        "–" if candidate.influence is None else size(candidate.influence.most),
        candidate.shuffler_duties or "–",
    )


def _best(candidates: list[Candidate], purpose: Purpose = Purpose.ACCURACY) -> Candidate | None:
    """The candidate to choose from a list that is sorted by error.

    Candidates that take long are left out, unless all of them take long. The result is the first
    remaining candidate that sends few messages and relies only on what is usual for its trust
    model. If there is none, it is the first remaining candidate that sends few messages. If there
    is still none, it is the first remaining candidate. For a collection, the result is always the
    first candidate of the list.
    """
    if purpose is Purpose.COLLECTION:
        return next(iter(candidates), None)
    quick = [one for one in candidates if one.seconds <= MANY_SECONDS] or candidates
    light = [candidate for candidate in quick if candidate.messages_per_user <= MANY_MESSAGES]
    usual = [candidate for candidate in light if candidate.guarantee.relies_as_usual]
    return next(iter(usual or light or quick), None)

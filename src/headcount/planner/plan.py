"""A plan ranks all protocols that answer a question, and holds what is needed to run one of them.

A plan is frozen and can be saved. Its file holds the question, the budget, the crowd, and the
chosen protocol with its options and calibrated parameters. Both sides of a collection build the
same protocol from this file. They refuse if their code would calibrate it differently. A digest of
the whole content names the plan and shows whether the file was changed.
"""

import json
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import HeadcountError, Infeasible, InvalidParameter, UnreadableData
from headcount.core.protocol import Protocol
from headcount.core.table import Table, counted_people, short, size
from headcount.core.task import Task, task_from
from headcount.core.writing import write_file
from headcount.planner.cache import cached, digest
from headcount.planner.candidate import Candidate, Refusal, assess
from headcount.planner.margin import Margin
from headcount.protocols.registry import outside_names, own_names, protocol, protocol_class
from headcount.theory import Bound, bounds

FORMAT, VERSION = "headcount.plan", 1
MOST_BYTES = 2**28  # the largest file that is read as a plan
MANY_MESSAGES = 100  # a protocol with more messages per person is chosen only if no other fits


@dataclass(frozen=True)
class Plan:
    """The candidates, best first, and the refused protocols. `chosen` names the one to be run.

    The best candidate has the least expected error among those that send at most 100 messages per
    person. If all candidates send more, the best has the least expected error of all. A protocol
    that relies on more than is usual for its trust is chosen only if no other fits.
    """

    task: Task
    budget: Budget
    crowd: Crowd
    confidence: float
    candidates: tuple[Candidate, ...]
    refused: tuple[Refusal, ...]
    bounds: tuple[Bound, ...]
    chosen: str | None

    def __getitem__(self, name: str) -> Candidate:
        """A candidate by its protocol's name."""
        for candidate in self.candidates:
            if candidate.protocol == name:
                return candidate
        for refusal in self.refused:
            if refusal.protocol == name:
                raise Infeasible(refusal.reason, nearest=refusal.feasible)
        raise InvalidParameter(f"`protocol` must be one that was planned for, got {name!r}")

    @property
    def best(self) -> Candidate:
        """The chosen candidate. Raises `Infeasible` if every protocol is refused."""
        if self.chosen is not None:
            return self[self.chosen]
        if not self.refused:
            raise InvalidParameter(f"no protocol of this trust answers {self.task}")
        # Protocols that run but do not fit what was asked for come last, the nearest at the very
        # end. If there are none, take the first protocol that another setting makes feasible.
        last = self.refused[-1]
        nearest = next((refusal for refusal in self.refused if refusal.feasible), last)
        nearest = nearest if last.feasible else last
        raise Infeasible(f"no protocol fits: {nearest}", nearest=nearest.feasible)

    def best_of(self, trust: Trust) -> Candidate | None:
        """The best candidate of one trust, or None if it has no candidate."""
        return _best([candidate for candidate in self.candidates if candidate.trust == trust])

    def choose(self, name: str) -> "Plan":
        """The same plan, to be run with another of its candidates."""
        return replace(self, chosen=self[name].protocol)

    def protocol(self) -> Protocol:
        """The chosen protocol, calibrated. Refuses if its parameters differ from the plan's."""
        wanted = self.best
        built = protocol(
            wanted.protocol, self.task, self.budget, self.crowd, **dict(wanted.options)
        )
        for what, computed, planned in (
            ("trust", built.trust, wanted.trust),
            ("guarantee", built.guarantee, wanted.guarantee),
            ("parameters", dict(built.parameters), dict(wanted.parameters)),
        ):
            if computed != planned:
                raise InvalidParameter(
                    f"the plan's {what} of {wanted.protocol} must be what this version of "
                    f"headcount computes, {computed}, got {planned}",
                    hint="plan again, or use the version that planned it",
                )
        return built

    # For people -------------------------------------------------------------------------------

    def table(self) -> Table:
        """The candidates, best first. Notes say why others are refused and what theory knows."""
        ranked_by_whole_error = bool(self.task.ranking_note)
        return Table(
            title=f"{self.task}: {described(self.budget, self.crowd)}",
            columns=(
                "protocol",
                "trust",
                *(["whole error"] if ranked_by_whole_error else []),
                "standard error",
                f"± {100 * self.confidence:.4g} %",
                "messages",
                "bits",
                "local ε",
                "guarantee",
            ),
            rows=tuple(
                (
                    candidate.protocol,
                    str(candidate.trust),
                    *([size(candidate.expected_error)] if ranked_by_whole_error else []),
                    size(candidate.standard_error),
                    size(candidate.margin),
                    size(candidate.messages_per_user),
                    size(candidate.bits_per_user),
                    size(candidate.local_epsilon),
                    "exact" if candidate.guarantee.exact else "upper bound",
                )
                for candidate in self.candidates
            ),
            words=2,
            spare=("trust", "bits", "local ε", "guarantee"),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        for refusal in self.refused:
            settings = ", ".join(
                f"{name}={short(value)}" for name, value in refusal.feasible.items()
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
        best = [candidate for candidate in map(self.best_of, Trust) if candidate is not None]
        if best:
            names = ", ".join(candidate.protocol for candidate in best)
            yield f"best of each trust: {names}"
        for candidate in (candidate for candidate in self.candidates if candidate not in best):
            if candidate.messages_per_user > MANY_MESSAGES:
                name = candidate.protocol
                yield f"not chosen: {name} sends more than {MANY_MESSAGES} messages per person"
            elif not candidate.guarantee.relies_as_usual:
                yield f"not chosen: {candidate.protocol} relies on {candidate.guarantee.relies_on}"
        yield "Standard errors are those of privacy noise, for the worst possible data."
        if self.task.ranking_note:
            yield self.task.ranking_note

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    # On disk ----------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A digest of everything that is in the plan. It serves as the name of the plan."""
        return digest(self._document())

    def to_dict(self) -> dict[str, Any]:
        """The plan for JSON, with its digest."""
        return {**self._document(), "digest": self.digest}

    def _document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task.to_dict(),
            "budget": asdict(self.budget),
            "crowd": asdict(self.crowd),
            "confidence": self.confidence,
            "chosen": self.chosen,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "theory": [bound.to_dict() for bound in self.bounds],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Plan":
        """The plan that `to_dict` wrote. Refuses a document in which anything was changed."""
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
                f"a plan must have the digest that is saved with it, "
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
            raise UnreadableData(f"{str(path)!r} must be a plan, got no JSON") from None
        if not isinstance(document, Mapping):
            raise UnreadableData(f"{str(path)!r} must be a plan, got other JSON")
        return cls.from_dict(document)


def plan(
    task: Task,
    budget: Budget,
    crowd: Crowd,
    *,
    trust: Trust | str | None = None,
    max_messages: float | None = None,
    exact: bool = False,
    margin: Margin | None = None,
    confidence: float = 0.95,
    progress: Callable[[str, float], None] = lambda name, share: None,
    keep: Callable[[Protocol], None] = lambda built: None,
) -> Plan:
    """Rank every protocol for a task, a budget and a crowd by its exact error.

    `trust` leaves out protocols of other trusts. Protocols are refused that send more than
    `max_messages` per person or miss the `margin`. With `exact=True`, protocols whose guarantee is
    only an upper bound are refused, too. A protocol that can trade messages for error uses as many
    messages as are allowed. Answers are kept on disk, except those of protocols from outside, so
    that asking again takes no time. `keep` is called with each protocol that is built.

        found = plan(Mean(0, 120), Budget(1, 1e-6), Crowd(20_000))
        found.best, found.candidates, found.refused, found.protocol(), found.save("plan.json")
    """
    checks.instance("task", task, Task)
    checks.instance("budget", budget, Budget)
    checks.instance("crowd", crowd, Crowd)
    confidence = margin.confidence if margin else checks.confidence(confidence)
    only = trust_of(trust)
    if max_messages is not None:
        max_messages = checks.real("max_messages", max_messages)
    question = {
        "plan": task.to_dict(),
        "budget": asdict(budget),
        "crowd": asdict(crowd),
        "confidence": confidence,
        "trust": only,
        "max_messages": max_messages,
    }
    # Protocols from outside may change, and so may their code. Only other answers are kept on disk.
    registered = outside_names(task, only)

    def assessed(names: list[str], *, before: int, after: int) -> list[Candidate | Refusal]:
        results = []
        for done, name in enumerate(names, before):
            progress(name, done / (before + len(names) + after))
            results.append(_assess(name, task, budget, crowd, confidence, max_messages, keep))
        return results

    def compute() -> dict[str, Any]:
        results = assessed(own_names(task, only), before=0, after=len(registered))
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
    fitting, missed = [], []
    for candidate in sorted(candidates, key=lambda candidate: candidate.expected_error):
        reason = _unfit(candidate, max_messages, exact)
        if reason is None and margin and candidate.margin > margin.allowed(task, crowd.users):
            reason = f"its margin is ±{short(candidate.margin, 4)}, and {margin} was asked for"
        if reason is None:
            fitting.append(candidate)
        else:
            missed.append(Refusal(candidate.protocol, candidate.trust, reason))
    best = _best(fitting)
    return Plan(
        task=task,
        budget=budget,
        crowd=crowd,
        confidence=confidence,
        candidates=tuple(fitting),
        refused=(*refused, *reversed(missed)),
        bounds=known,
        chosen=None if best is None else best.protocol,
    )


def best_protocol(task: Task, budget: Budget, crowd: Crowd, trust: Trust | str) -> Protocol:
    """The best protocol of one trust, with its default options. `Plan` says which is the best."""
    built: dict[str, Protocol] = {}

    def keep(made: Protocol) -> None:
        built[made.name] = made

    ranked = plan(task, budget, crowd, trust=trust, keep=keep)
    return built.get(ranked.best.protocol) or ranked.protocol()


def trust_of(trust: Trust | str | None) -> Trust | None:
    """The trust with this name; None stays None."""
    return None if trust is None else Trust(checks.choice("trust", trust, list(Trust)))


def _contents(path: Path) -> bytes:
    """The bytes of a file. Pipes are refused because they may block, and so are huge files."""
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
    """A budget and a crowd in words."""
    return f"{crowd_words(crowd)}, ε = {short(budget.epsilon)}, δ = {short(budget.delta)}"


def crowd_words(crowd: Crowd) -> str:
    """A crowd in words."""
    honest = "" if crowd.honest == crowd.users else f", {crowd.honest:,} of them honest"
    return f"{counted_people(crowd.users)}{honest}"


def _best(candidates: list[Candidate]) -> Candidate | None:
    """The first candidate that asks for no unusual trust and sends few messages. If there is none,
    the first that sends few messages, or else the first. The list is best first.
    """
    light = [candidate for candidate in candidates if candidate.messages_per_user <= MANY_MESSAGES]
    usual = [candidate for candidate in light if candidate.guarantee.relies_as_usual]
    return next(iter(usual or light or candidates), None)


def _unfit(candidate: Candidate, max_messages: float | None, exact: bool) -> str | None:
    """Why a candidate does not fit what was asked for. None if it fits."""
    if max_messages is not None and candidate.messages_per_user > max_messages:
        return (
            f"its number of messages per person is {short(candidate.messages_per_user, 4)}, and "
            f"at most {short(max_messages)} is allowed"
        )
    if exact and not candidate.guarantee.exact:
        return "its guarantee is an upper bound, and an exact guarantee was asked for"
    return None


def _assess(
    name: str,
    task: Task,
    budget: Budget,
    crowd: Crowd,
    confidence: float,
    max_messages: float | None,
    keep: Callable[[Protocol], None] = lambda built: None,
) -> Candidate | Refusal:
    """What a protocol costs, or why it is refused and which settings would make it feasible.

    A protocol that can trade messages for error gets the options with the least error among those
    that send at most `max_messages` per person.
    """
    settings: Iterable[Mapping[str, Any]] = ({},)
    if max_messages is not None:
        settings = protocol_class(name, task).settings_within(task, budget, crowd, max_messages)
    tried = [assess(name, task, budget, crowd, confidence, keep, **options) for options in settings]
    candidates = [result for result in tried if isinstance(result, Candidate)]
    fitting = [
        candidate
        for candidate in candidates
        if _unfit(candidate, max_messages, exact=False) is None
    ]
    best = min(fitting or candidates, key=lambda fit: fit.expected_error, default=None)
    result = tried[0] if best is None else best
    if isinstance(result, Candidate) or result.feasible:
        return result
    for setting, others in _other_settings(budget, crowd):
        if isinstance(assess(name, task, *others, confidence), Candidate):
            return replace(result, feasible=setting)
    return result


def _other_settings(
    budget: Budget, crowd: Crowd
) -> Iterator[tuple[dict[str, float], tuple[Budget, Crowd]]]:
    """Less demanding settings. First one number is changed at a time, then all at once."""
    others = [
        *({"epsilon": epsilon} for epsilon in (0.01, 0.1, 1.0) if epsilon > budget.epsilon),
        *({"epsilon": epsilon} for epsilon in (8.0, 2.0) if 4 * epsilon < budget.epsilon),
        *({"delta": delta} for delta in (1e-9, 1e-6) if delta > budget.delta),
    ]
    for changed in others:
        yield changed, (replace(budget, **changed), crowd)
    users = max(100 * crowd.users, 100_000)
    larger = Crowd(users, max(1, users * crowd.honest // crowd.users))
    yield {"users": users}, (budget, larger)
    usual = Budget(1.0, max(budget.delta, 1e-6))
    yield {**asdict(usual), "users": users}, (usual, larger)

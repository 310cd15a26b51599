"""The researcher's pages as HTML."""

import io
import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import segno

from headcount.console import texts
from headcount.console.form import QUESTIONS
from headcount.console.html import (
    actions,
    asking,
    at,
    button,
    card,
    choices,
    field,
    form,
    h1,
    h2,
    hidden,
    items,
    link,
    p,
    page,
    problem,
    radios,
    text_area,
    told,
    wrong_line,
)
from headcount.console.surveys import Folder, Round
from headcount.core.budget import Trust
from headcount.core.errors import HeadcountError
from headcount.core.table import counted_people, short
from headcount.plot.collected_page import collected_body
from headcount.plot.survey_pages import margins, odds_drawn, seen
from headcount.survey.plan import SurveyPlan

# The steps of the slider on the page of a plan.
EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
DOWNLOADS = {"html": "HTML", "json": "JSON", "parquet": "Parquet"}


def sign_in(error: str = "") -> str:
    """The page that asks for the token."""
    said = f'<div class="problems" role="alert">{p(error)}</div>' if error else ""
    return page(
        texts.SIGN_IN,
        h1(texts.SIGN_IN),
        said,
        told(texts.SIGN_IN_WHY, command="headcount console"),
        form("/token", "", field("token", texts.TOKEN, kind="password",
                                 more='autocomplete="off" required'),
             actions(button(texts.SIGN_IN))),
    )  # fmt: skip


def surveys(folder: Folder) -> str:
    """The list of all surveys."""
    rows = []
    for name in folder.names():
        last = folder.round(name)
        state = "draft" if last is None else last.state
        try:
            title = folder.survey(name).title or name
        except HeadcountError:
            title = texts.NOT_A_SURVEY
        words = f'<span class="tag {state}">{texts.STATES[state]}</span>'
        rows.append(
            f"<div>{link(at(name), title)}{p(texts.NAMED.format(name=name), 'note')}</div>{words}"
        )
    return page(
        texts.SURVEYS,
        h1(texts.SURVEYS),
        p(texts.FOLDER.format(place=folder.place.resolve()), "note"),
        items(rows) if rows else p(texts.NO_SURVEYS),
        actions(
            link("/form", texts.NEW_FORM, "button primary"),
            link("/new", texts.NEW_FILE, "button"),
        ),
    )


def editor(
    stamp: str, name: str, text: str, *, new: bool, error: HeadcountError | None = None
) -> str:
    """The page on which a survey file is written."""
    title = texts.NEW if new else texts.EDITING.format(name=name)
    target = "/new" if new else at(name, "edit")
    named = (
        field("name", texts.NAME, value=name,
              more='required pattern="[A-Za-z0-9][A-Za-z0-9_\\-]*" maxlength="64"')
        + p(texts.NAME_HELP, "help")
        if new else ""
    )  # fmt: skip
    upload = (
        f'<div class="field"><label for="upload">{texts.UPLOAD}</label>'
        '<input id="upload" type="file" accept=".toml,text/plain"></div>'
    )
    return page(
        title,
        h1(title),
        problem(error) if error else "",
        form(
            target,
            stamp,
            named,
            upload,
            text_area("text", texts.FILE, text, wrong_line(error) if error else ""),
            p(texts.FILE_HELP, "help") if new and not error else "",
            actions(button(texts.SAVE)),
        ),
    )


def survey_form(stamp: str, error: HeadcountError | None = None) -> str:
    """A form for a survey of a few questions."""
    first = "".join(_asked(number) for number in range(1, 4))
    others = "".join(_asked(number) for number in range(4, QUESTIONS + 1))
    return page(
        texts.FORM_TITLE,
        h1(texts.FORM_TITLE),
        problem(error) if error else "",
        p(texts.FORM_HELP),
        form(
            "/form",
            stamp,
            field("title", texts.FORM_TITLE_FIELD, more='class="wide" required'),
            field("introduction", texts.FORM_INTRODUCTION, more='class="wide"'),
            field("contact", texts.FORM_CONTACT),
            field("least_people", texts.FORM_PEOPLE, value="100", kind="number", more='min="1"'),
            p(texts.FORM_PEOPLE_HELP, "help"),
            radios("trust", texts.FORM_TRUST, texts.FORM_TRUSTS, "shuffle"),
            first,
            f"<details><summary>{texts.FORM_MORE}</summary>{others}</details>",
            actions(button(texts.FORM_NEXT)),
        ),
    )


def _asked(number: int) -> str:
    """The fields of one question."""
    return (
        f"<fieldset><legend>{texts.FORM_QUESTION.format(number=number)}</legend>"
        + field(f"text{number}", texts.FORM_TEXT, more='class="wide"')
        + choices(f"kind{number}", texts.FORM_KIND, texts.FORM_KINDS)
        + field(f"choices{number}", texts.FORM_CHOICES, more='class="wide"', look="field choices")
        + f'<label class="option"><input type="checkbox" name="optional{number}" value="yes">'
        f"<span>{texts.FORM_OPTIONAL}</span></label></fieldset>"
    )


# The plan -------------------------------------------------------------------------------------


def plan_page(
    stamp: str,
    name: str,
    plan: SurveyPlan,
    *,
    own: float,
    last: Round | None,
    margin: float | None = None,
    error: HeadcountError | None = None,
) -> str:
    """The page of a plan. `own` is the epsilon in the survey file, which may differ from the plan's
    epsilon. `margin` is the margin that was asked for, in percentage points. `last` is the last
    round of the survey, or None if the survey was never opened.
    """
    survey = plan.survey
    return page(
        survey.title or name,
        h1(survey.title or name),
        p(survey.introduction, "lead") if survey.introduction else "",
        problem(error) if error else "",
        _how_exact(name, plan, margin if error is None else None),
        _slider(stamp, name, plan, own, last),
        h2(texts.MARGINS),
        p(texts.MARGINS_HELP.format(people=counted_people(plan.users))),
        margins(plan),
        h2(texts.ODDS),
        p(plan.odds.sentence, "strong"),
        odds_drawn(plan.odds),
        h2(texts.SEES),
        seen(plan.seen),
        p(plan.relies_on),
        _opening(stamp, name, plan, own, last),
        actions(
            link("/", texts.HOME, "button"),
            link(at(name, "edit"), texts.EDIT, "button") if last is None else "",
        ),
    )


def _how_exact(name: str, plan: SurveyPlan, margin: float | None) -> str:
    found = ""
    if margin is not None:
        words = texts.NEEDED.format(
            margin=short(margin), people=counted_people(plan.users), epsilon=epsilon_text(plan)
        )
        found = f'<div class="answer">{p(words, "strong")}{p(plan.odds.sentence)}</div>'
    asked = field(
        "margin", texts.MARGIN, value="" if margin is None else short(margin), kind="number",
        more='min="0.1" max="50" step="any" inputmode="decimal" required',
    )  # fmt: skip
    return card(
        h2(texts.HOW_EXACT),
        p(texts.HOW_EXACT_HELP),
        asking(at(name, "plan"),
               f'<div class="row">{asked}{actions(button(texts.ASK_MARGIN))}</div>'),
        found,
    )  # fmt: skip


def _slider(stamp: str, name: str, plan: SurveyPlan, own: float, last: Round | None) -> str:
    epsilon = plan.survey.budget.epsilon
    step = min(range(len(EPSILONS)), key=lambda one: abs(math.log(EPSILONS[one] / epsilon)))
    said = texts.SHOWN_FOR.format(epsilon=epsilon_text(plan))
    if epsilon != own:
        said = f"{said} {texts.NOW.format(epsilon=short(own))}"
    return card(
        h2(texts.SLIDER),
        # After loading, the browser goes back to the slider.
        asking(
            f"{at(name, 'plan')}#step",
            f'<label for="step">{texts.SLIDER_LABEL}</label>'
            f'<input id="step" name="step" type="range" min="0" max="{len(EPSILONS) - 1}" '
            f'value="{step}" aria-valuetext="{epsilon_text(plan)}">'
            f'<div class="ends"><span>← {texts.STRONGER}</span>'
            f"<span>{texts.EXACTER} →</span></div>",
            p(said, "strong"),
            actions(button(texts.SHOW, primary=False)),
        ),
        _use(stamp, name, plan) if last is None and epsilon != own else "",
    )


def _use(stamp: str, name: str, plan: SurveyPlan) -> str:
    """A button that writes the shown epsilon into the file."""
    return form(
        at(name, "epsilon"),
        stamp,
        hidden("epsilon", f"{plan.survey.budget.epsilon:.10g}"),
        button(texts.USE.format(epsilon=epsilon_text(plan))),
    )


def epsilon_text(plan: SurveyPlan) -> str:
    return short(plan.survey.budget.epsilon)


def _opening(stamp: str, name: str, plan: SurveyPlan, own: float, last: Round | None) -> str:
    if last is not None and last.state in ("open", "counting"):
        return ""
    if plan.survey.budget.epsilon != own:
        words = texts.OPEN_LATER.format(epsilon=epsilon_text(plan), own=short(own))
        back = link(at(name, "plan"), texts.USE.format(epsilon=short(own)), "button")
        again = _use(stamp, name, plan) if last is None else ""
        return h2(texts.OPEN) + card(p(words), f'<div class="row">{again}{back}</div>')
    local = plan.survey.trust == Trust.LOCAL
    warning = p(texts.SAME_MACHINE_LOCAL, "note") if local else p(texts.SAME_MACHINE, "warning")
    return (
        h2(texts.OPEN if last is None else texts.AGAIN)
        + (p(texts.AGAIN_HELP) if last is not None else "")
        + warning
        + card(
            p(texts.OPEN_HELP.format(epsilon=short(own))),
            form(at(name, "open"), stamp,
                 radios("admission", texts.ADMISSION, texts.ADMISSIONS, "codes"),
                 button(texts.OPEN)),
        )
        + card(
            h2(texts.CLASS),
            p(texts.CLASS_HELP),
            form(at(name, "open"), stamp, hidden("admission", "open"), hidden("class", "yes"),
                 button(texts.CLASS_OPEN, primary=False)),
        )
    )  # fmt: skip


# Collecting -----------------------------------------------------------------------------------


def collecting(stamp: str, name: str, found: Round, *, few: bool) -> str:
    """The link, the number of responses, and what can be done while people answer. `few` says that
    closing was refused because too few people have answered.
    """
    document, address = found.document, found.address
    codes = ""
    if document.admission == "codes":
        codes = card(
            h2(texts.CODES),
            p(texts.CODES_HELP),
            form(at(name, "codes"), stamp, '<div class="row">',
                 field("count", texts.CODES_COUNT, value=str(document.least_people),
                       kind="number", more='min="1" max="100000" required'),
                 actions(button(texts.CODES_GET)), "</div>"),
        )  # fmt: skip
    return page(
        document.title or name,
        h1(document.title or name),
        p(texts.COLLECTING, "lead"),
        _too_few(found) if few else "",
        _shared(found, "warning"),
        f'<section class="card collect">{_qr(name, address)}<div>',
        *count(name, found),
        p(texts.LINK, "strong"),
        f"<p>{link(address, address)}</p>",
        _only_here(address),
        "</div></section>",
        codes,
        card(
            h2(texts.CLOSE),
            p(texts.CLOSE_HELP),
            form(at(name, "close"), stamp, button(texts.CLOSE)),
        ),
        f"<details><summary>{texts.DESTROY}</summary>{p(texts.DESTROY_HELP)}",
        form(at(name, "destroy"), stamp, button(texts.DESTROY_SURE, primary=False)),
        "</details>",
        actions(
            link(at(name, "class"), texts.PROJECT, "button") if found.in_class else "",
            link(at(name, "plan"), texts.PLAN, "button"),
            link("/", texts.HOME, "button"),
        ),
    )


def count(name: str, found: Round) -> Sequence[str]:
    """The number of responses, and whether it is enough. A script keeps both up to date."""
    data = status_data(found)
    return (
        f'<p class="count" aria-live="polite" data-status="{at(name, "status")}" '
        f'data-state="{data["state"]}">{data["count"]}</p>',
        f'<p id="minimum" class="{"note" if data["enough"] else "alarm"}">{data["minimum"]}</p>',
        "" if found.in_class else p(texts.COUNT_NOTE, "note"),
    )


def status_data(found: Round) -> dict[str, object]:
    """What a page shows about a round that is open. Only class mode shows the exact number."""
    status = found.status
    enough = status.responses >= status.least_people
    if found.in_class:
        exact = texts.COUNT_EXACT.format(count=f"{status.responses:,}")
        words = texts.COUNT_ONE if status.responses == 1 else exact
    elif status.coarse:
        words = texts.COUNT_COARSE.format(count=f"{status.coarse:,}")
    else:
        words = texts.COUNT_FEW.format(step=f"{status.step:,}")
    least = counted_people(status.least_people)
    return {
        "state": found.state,
        "count": words,
        "enough": enough,
        "minimum": (texts.ENOUGH if enough else texts.BELOW).format(least=least),
    }


def projector(stamp: str, name: str, found: Round, *, few: bool) -> str:
    """Class mode: one QR code, one number, one button. If phones cannot follow the link, there is
    no QR code.
    """
    document, address = found.document, found.address
    return page(
        document.title or name,
        f"{_qr(name, address)}<div>",
        h1(document.title or name),
        p(texts.FOLLOW if only_here(address) else texts.SCAN, "lead"),
        f'<p class="note">{link(address, address)}</p>',
        *count(name, found),
        _too_few(found) if few else "",
        form(at(name, "close"), stamp, hidden("class", "yes"), button(texts.CLASS_CLOSE)),
        _only_here(address),
        _shared(found, "note"),
        f"<p>{link(at(name), texts.BACK)}</p></div>",
        kind="class",
    )


def _too_few(found: Round) -> str:
    least = counted_people(found.document.least_people)
    return f'<div class="problems" role="alert">{p(texts.TOO_FEW.format(least=least))}</div>'


def _shared(found: Round, kind: str) -> str:
    """The warning that both services run on this machine. Only shuffle trust needs it."""
    return p(texts.SAME_MACHINE_NOW, kind) if found.document.trust is Trust.SHUFFLE else ""


def _only_here(address: str) -> str:
    if not only_here(address):
        return ""
    return told(texts.ONLY_HERE, "note", command="headcount console", option="--address")


def only_here(address: str) -> bool:
    """Whether an address can be reached only from this machine."""
    return urlsplit(address).hostname in ("127.0.0.1", "::1", "localhost")


def _qr(name: str, address: str) -> str:
    """The QR code, if phones can follow the link."""
    if only_here(address):
        return ""
    return f'<img class="qr" src="{at(name, "qr.svg")}" alt="{texts.SCAN}">'


def qr(address: str) -> bytes:
    """The QR code of an address, as SVG. It is black on white in dark mode, too."""
    out = io.BytesIO()
    _code(address).save(
        out, kind="svg", light="#fff", border=4, omitsize=True, svgclass=None, lineclass=None
    )
    return out.getvalue()


def qr_text(address: str) -> str:
    """The QR code of an address for a terminal, as white blocks on black."""
    out = io.StringIO()
    _code(address).terminal(out, compact=True)
    return out.getvalue()


def _code(address: str) -> Any:
    return segno.make_qr(address, error="m")


# Results --------------------------------------------------------------------------------------


def counting(name: str, found: Round) -> str:
    """The page between closing and results. It reloads itself."""
    title = found.document.title or name
    return page(
        title, h1(title), p(texts.COUNTING, "lead"), p(texts.COUNTING_HELP, "note"), refresh=2
    )


def results(name: str, found: Round) -> str:
    """The results as the analyzer stored them, with downloads."""
    title = found.document.title or name
    files = [
        link(at(name, f"results.{ending}"), words, "button") for ending, words in DOWNLOADS.items()
    ]
    return page(
        title,
        h1(title),
        collected_body(found.results or {}),
        h2(texts.DOWNLOADS),
        actions(*files),
        actions(link(at(name, "plan"), texts.AGAIN, "button"), link("/", texts.HOME, "button")),
    )


def destroyed(name: str, found: Round) -> str:
    title = found.document.title or name
    return page(
        title,
        h1(title),
        p(texts.DESTROYED),
        actions(link(at(name, "plan"), texts.AGAIN, "button"), link("/", texts.HOME, "button")),
    )


def refused(error: HeadcountError, back: str = "/") -> str:
    """What went wrong, with a link to the page `back`."""
    return page(
        texts.REFUSED,
        h1(texts.REFUSED),
        problem(error),
        actions(link(back, texts.HOME if back == "/" else texts.BACK, "button")),
    )

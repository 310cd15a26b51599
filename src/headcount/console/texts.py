"""All texts of the researcher's pages. Words in braces are filled in."""

PRODUCT = "Headcount"

# Signing in
SIGN_IN = "Sign in"
SIGN_IN_WHY = (
    "These pages need a token. If you started {command} on this machine, open the address that it "
    "printed. That address works once. To get a new one, stop the program and start it again."
)
TOKEN = "Token"
WRONG_TOKEN = "This token is wrong, or it was used before."
STALE_FORM = "This form is too old. Go back, load the page again, and send the form once more."

# The list of surveys
SURVEYS = "Surveys"
FOLDER = "Survey files in {place}"
NAMED = "{name}.toml"
NO_SURVEYS = "There are no survey files yet. Write the first one."
NEW = "New survey"
NEW_FORM = "New survey from a form"
NEW_FILE = "New survey as a file"
NOT_A_SURVEY = "This file is not a survey yet."
STATES = {
    "draft": "not opened yet",
    "open": "open",
    "counting": "being counted",
    "results": "results are ready",
    "destroyed": "destroyed",
}

# Editing
NAME = "Name of the file"
NAME_HELP = "Letters, digits, - and _. The file gets the ending .toml."
FILE = "Survey file"
FILE_HELP = "Change whatever you like. Everything after a # is a comment."
UPLOAD = "Use the text of a file on this device"
SAVE = "Check and save"
EDIT = "Edit the file"
EDITING = "Edit {name}.toml"
FIX = "Fix: {hint}"
FIXED_NOW = "This survey was opened, so its file cannot be changed."

# The form
FORM_TITLE = NEW_FORM
FORM_HELP = (
    "Fill in as many questions as you need. The next page shows the survey file, where you can "
    "change everything."
)
FORM_NEXT = "Make the survey file"
FORM_TITLE_FIELD = "Title"
FORM_INTRODUCTION = "Introduction for people who answer"
FORM_CONTACT = "Contact, such as an e-mail address"
FORM_PEOPLE = "Least number of people"
FORM_PEOPLE_HELP = "With fewer responses, nothing is analyzed."
FORM_TRUST = "Whom must people trust?"
FORM_TRUSTS = {
    "shuffle": "Somebody who mixes all answers before they are counted",
    "local": "Only their own devices, which randomize all answers",
}
FORM_QUESTION = "Question {number}"
FORM_TEXT = "What do you ask?"
FORM_KIND = "How do people answer?"
FORM_KINDS = {
    "yes-no": "yes or no",
    "choice": "one of several choices",
    "several": "any number of choices",
    "scale": "a scale from 1 to 5",
}
FORM_CHOICES = "Choices, separated by commas"
FORM_MORE = "More questions"
FORM_OPTIONAL = "People may skip it"

# The plan
PLAN = "Plan"
HOW_EXACT = "How exact must it be?"
HOW_EXACT_HELP = (
    "Noise protects people, and makes results less exact. Say how large the margin of error from "
    "this noise may be, in percentage points. The page then finds the strongest protection with "
    "which the answers are exact enough."
)
MARGIN = "Largest margin of every answer, in points"
ASK_MARGIN = "Find the protection"
NEEDED = "For ±{margin} points with {people}, ε = {epsilon} is enough."
NOW = "The survey file says ε = {epsilon}."
USE = "Use ε = {epsilon}"
SLIDER = "Or choose the protection"
SLIDER_LABEL = "Privacy budget ε"
STRONGER = "stronger protection"
EXACTER = "more exact answers"
SHOW = "Show the margins"
SHOWN_FOR = "The margins below are for ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{epsilon}."
BUSY = "Computing. This can take half a minute."
MARGINS = "What is asked, and how exact the answers will be"
MARGINS_HELP = (
    "Margins hold with 95 % confidence, for {people}. If a share is estimated at 30 % ±2 points, "
    "the true share is between 28 % and 32 %. The second margin also allows for sampling: it is "
    "for the population from which people are drawn at random."
)
SEES = "Who could see what"
ODDS = "What the promise means"

# Opening
OPEN = "Open the survey"
OPEN_HELP = (
    "Opening makes a key and the document that everybody gets. The questions and the protection, "
    "ε = {epsilon}, cannot be changed afterwards."
)
OPEN_LATER = (
    "This page shows the numbers for ε = {epsilon}, but the survey file says ε = {own}. Choose one "
    "of them. Then you can open the survey."
)
SAME_MACHINE = (
    "Warning: the shuffler and the analyzer will both run on this machine. Whoever runs this "
    "machine can link answers to people. Use this to try things out, in class, or if people trust "
    "you. Otherwise, two organizations must run the two services."
)
SAME_MACHINE_NOW = (
    "Warning: the shuffler and the analyzer both run on this machine. Whoever runs this machine "
    "can link answers to people."
)
SAME_MACHINE_LOCAL = "Both services will run on this machine. In local trust, this is fine."
ADMISSION = "Who may answer?"
ADMISSIONS = {
    "codes": "Only people with an invitation code, once each",
    "open": "Anybody with the link, any number of times. Results can be manipulated.",
}
CLASS = "Class mode"
CLASS_HELP = (
    "One QR code for the projector, a live number of responses, and one button. Anybody with the "
    "link can answer any number of times."
)
CLASS_OPEN = "Open in class mode"
AGAIN = "Ask again"
AGAIN_HELP = (
    "A new round spends privacy again. If people answer in both rounds, the budgets of both rounds "
    "add up."
)

# Collecting
COLLECTING = "People are answering"
LINK = "Link for people who answer"
ONLY_HERE = (
    "This link works only on this machine. Phones need an address with HTTPS: put a proxy with TLS "
    "in front of the shuffler, and start {command} with {option}."
)
COUNT_EXACT = "{count} responses"
COUNT_ONE = "1 response"
COUNT_COARSE = "at least {count} responses"
COUNT_FEW = "fewer than {step} responses"
COUNT_NOTE = "The exact number is not shown, so that nobody learns when somebody answered."
BELOW = "Below the minimum of {least}: nothing can be analyzed yet."
ENOUGH = "The minimum of {least} is reached."
TOO_FEW = (
    "At least {least} must answer before this survey can be closed. Wait for more people, or go "
    "back to the survey and destroy the responses."
)
CODES = "Invitation codes"
CODES_HELP = (
    "The file has one link for each person. Only hashes of the codes are stored, so keep the file."
)
CODES_COUNT = "Number of codes"
CODES_GET = "Make codes"
CLOSE = "Close and count"
CLOSE_HELP = "Closing cannot be undone. The responses are mixed, opened and counted once."
PROJECT = "Show it on the projector"
BACK = "Back to the survey"
DESTROY = "Destroy the responses"
DESTROY_HELP = "If too few people answer, delete everything that they sent."
DESTROY_SURE = "Yes, delete all responses"
DESTROYED = "All responses of this round were deleted."
SCAN = "Scan to answer"
FOLLOW = "Open this link to answer"
CLASS_CLOSE = "Close and show the result"

# Results
COUNTING = "Mixing, opening and counting"
COUNTING_HELP = "This page reloads by itself."
RESULTS = "Results"
DOWNLOADS = "Download"
REFUSED = "This did not work"
NOT_FOUND = "There is nothing at this address."
BUG = "The program failed. The terminal in which it runs shows more."
HOME = "All surveys"

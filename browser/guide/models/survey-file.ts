// The survey file that the reader downloads.

export interface Plan {
  readonly title: string;
  readonly trust: string;
  readonly epsilon: number;
  readonly delta: number;
  readonly people: number;
  /** Texts of yes-or-no questions. */
  readonly questions: readonly string[];
}

const TRUSTED: Readonly<Record<string, string>> = {
  central: "the people who run the survey: they see all answers, and publish only noisy results",
  shuffle: "someone who mixes all answers before anybody sees them",
  local: "nobody: each device randomizes the answers itself",
};

/** The survey in TOML. */
export function surveyFile({ title, trust, epsilon, delta, people, questions }: Plan): string {
  return [
    "# A survey for Headcount, planned with its guide.",
    "# Check it with: headcount survey check survey.toml",
    "# Plan it with:  headcount survey plan survey.toml",
    "",
    `title = ${text(title)}`,
    "",
    "[privacy]",
    `# People have to trust ${TRUSTED[trust]!}.`,
    `trust = ${text(trust)}`,
    "# The budget for everything that one person says, together. Smaller is more private.",
    `epsilon = ${epsilon}`,
    ...(delta ? [`delta = ${delta.toExponential()}`] : []),
    "# With fewer answers than this, nothing is analyzed.",
    `least_people = ${people}`,
    ...questions.flatMap((question, at) => [
      "",
      "[[question]]",
      `id = "q${at + 1}"`,
      `text = ${text(question)}`,
      'kind = "yes-no"',
    ]),
    "",
  ].join("\n");
}

/** A text in quotation marks. Strings of JSON are strings of TOML, except for two things: TOML has no
 * halves of surrogate pairs, and no plain delete character. */
function text(value: string): string {
  const whole = new TextDecoder().decode(new TextEncoder().encode(value));
  return JSON.stringify(whole).replaceAll("\u007f", "\\u007f");
}

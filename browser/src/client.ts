// A respondent: draws once which questions it asks, randomizes once, seals once, keeps the sealed bytes,
// and repeats exactly these bytes until the shuffler has confirmed them.

import { fetched, surveyOf, type Survey } from "./document.js";
import { HeadcountError } from "./errors.js";
import type { Answers, Question } from "./questions.js";
import { SecureSource, type Source } from "./random.js";
import { asked, randomized, selected, type Content, type Selection } from "./response.js";
import { Sealer } from "./seal.js";
import { answered, BrowserStore, isAnswered, type Kept, type Store } from "./store.js";

export type Receipt = "stored" | "seen before";
export type State = "new" | "sealed" | "accepted";

const AGAIN = [408, 429, 500, 502, 503, 504, 507]; // the same bytes may be accepted later

export interface Options {
  readonly store?: Store;
  readonly source?: Source;
  /** Where responses are sent. By default, this is the address in the document. */
  readonly shuffler?: string;
  readonly wait?: (milliseconds: number) => Promise<void>;
}

export class Respondent {
  private readonly store: Store;
  private readonly source: Source;
  private readonly url: string;
  private readonly wait: (milliseconds: number) => Promise<void>;

  constructor(
    readonly survey: Survey,
    options: Options = {},
  ) {
    this.store = options.store ?? new BrowserStore();
    this.source = options.source ?? new SecureSource();
    this.url = options.shuffler ?? `${survey.shuffler}/surveys/${survey.digest}/responses`;
    this.wait = options.wait ?? ((time) => new Promise((resolve) => setTimeout(resolve, time)));
  }

  /** Fetch a survey from an address that ends with its digest. */
  static async open(url: string, options: Options = {}): Promise<Respondent> {
    const digest = /([0-9a-f]{64})\/?$/.exec(url)?.[1] ?? "";
    return new Respondent(await surveyOf(await fetched(url.replace(/\/$/, "")), digest), options);
  }

  async state(): Promise<State> {
    const kept = await this.kept();
    return kept?.accepted ? "accepted" : kept?.sealed ? "sealed" : "new";
  }

  /** The surveys that this device has answered before, except this one. */
  async before(): Promise<Kept[]> {
    const others = (await this.store.all()).filter((one) => one.digest !== this.survey.digest);
    return others.filter(isAnswered);
  }

  /** The questions that this device asks. In local trust, these may be some of all questions. The first
   * call draws them, and keeps what it has drawn. */
  async questions(): Promise<Question[]> {
    return asked(this.survey, await this.selection());
  }

  private async selection(): Promise<Selection> {
    const drawn = selected(this.survey, this.source);
    if (this.survey.trust !== "local") return drawn;
    const { digest, epsilon } = this.survey;
    const fresh = { digest, sealed: null, accepted: false, epsilon, selection: drawn };
    const kept = await this.store.update(digest, (found) => {
      if (found && isAnswered(found)) throw answered();
      return found ?? fresh;
    });
    return kept.selection ?? drawn;
  }

  /** Randomize and seal the answers, once, and keep the sealed bytes. Nothing is sent yet. The result
   * is what was sealed. */
  async answer(answers: Answers): Promise<Content[]> {
    if ((await this.state()) !== "new") throw answered();
    const contents = randomized(this.survey, answers, this.source, await this.selection());
    const sealed = await new Sealer(this.survey).seal(contents);
    const { digest, epsilon } = this.survey;
    await this.store.update(digest, (found) => {
      if (found && isAnswered(found)) throw answered();
      return { digest, sealed, accepted: false, epsilon };
    });
    return contents;
  }

  private async kept(): Promise<Kept | undefined> {
    return (await this.store.all()).find((one) => one.digest === this.survey.digest);
  }

  /** The bytes that leave this device. They are forgotten once they are accepted. */
  async sealed(): Promise<Uint8Array<ArrayBuffer>> {
    const kept = await this.kept();
    if (!kept?.sealed) throw new HeadcountError("answer", "there must be answers to send");
    return kept.sealed;
  }

  /** Send the sealed bytes until the shuffler confirms them. `code` is the invitation code. */
  async send(code = "", tries = 5): Promise<Receipt> {
    if ((await this.state()) === "accepted") return "seen before";
    const sealed = await this.sealed();
    for (let attempt = 1; ; attempt++) {
      try {
        const receipt = await posted(this.url, sealed, code);
        const { digest, epsilon } = this.survey;
        await this.store.update(digest, () => ({ digest, sealed: null, accepted: true, epsilon }));
        return receipt;
      } catch (error) {
        const again = error instanceof HeadcountError && error.code === "unavailable";
        if (!again || attempt >= tries) throw error;
      }
      await this.wait(Math.min(60_000, 500 * 2 ** attempt));
    }
  }
}

async function posted(url: string, body: Uint8Array<ArrayBuffer>, code: string): Promise<Receipt> {
  const headers: Record<string, string> = { "Content-Type": "application/octet-stream" };
  if (code) headers["Authorization"] = `Code ${code}`;
  let reply: Response;
  try {
    reply = await fetch(url, {
      method: "POST",
      body,
      headers,
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
    });
  } catch {
    throw new HeadcountError("unavailable", "the shuffler cannot be reached");
  }
  if (reply.status === 201) return "stored";
  if (reply.status === 200) return "seen before";
  const what = `the shuffler answered with status ${reply.status}`;
  if (AGAIN.includes(reply.status)) throw new HeadcountError("unavailable", what);
  if (reply.status === 410) throw new HeadcountError("closed", what);
  if (reply.status === 401 || reply.status === 409) throw new HeadcountError("code", what);
  throw new HeadcountError("refused", what);
}

// What went wrong. `code` chooses the sentence that people read; `message` is for developers.

export type Code =
  | "document" // the document is damaged, hostile, or not the one that was asked for
  | "unsupported" // a newer version of this client is needed
  | "answer" // an answer is missing or out of range
  | "answered" // this device has answered before
  | "unavailable" // the shuffler cannot be reached at the moment
  | "closed" // the survey is closed
  | "code" // the invitation code is wrong, missing or used
  | "refused"; // the shuffler refuses the response for another reason

export class HeadcountError extends Error {
  constructor(
    readonly code: Code,
    message: string,
  ) {
    super(message);
    this.name = "HeadcountError";
  }
}

export function refuse(message: string): never {
  throw new HeadcountError("document", `a survey document ${message}`);
}

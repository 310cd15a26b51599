// The client for other sites: an ES module without dependencies.

export { Respondent, type Options, type Receipt, type State } from "./client.js";
export { fetched, surveyOf, type Release, type Survey } from "./document.js";
export { HeadcountError, type Code } from "./errors.js";
export type { Answer, Answers, Question } from "./questions.js";
export { GivenSource, SecureSource, type Source } from "./random.js";
export { asked, randomized, selected, type Content, type Selection } from "./response.js";
export { Sealer } from "./seal.js";
export { BrowserStore, type Kept, type Store } from "./store.js";

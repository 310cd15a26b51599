// All texts of the page in English. Other languages have the same entries.

import type { Code } from "../../src/errors.js";

const people = (number: string) => `${number} people`;

export const english = {
  language: "English",
  loading: "Loading the survey …",
  reload: "Load again",
  untitled: "Survey",
  questions: (count: number) => (count === 1 ? "1 question" : `${count} questions`),
  contact: "Contact",

  // Before the questions
  promise: {
    title: "What we promise you",
    local:
      "Your device changes your answers at random before it sends them. Nobody who sees what it sends can be certain of your true answers.",
    shuffle:
      "Your answers leave your device in sealed messages. One party mixes everybody’s messages and cannot open them. Another party opens the mixed messages and cannot tell who sent them.",
    odds: (without: number, within: number) =>
      `Of 100 people who guess about you, on average ${without} are right without your answers, and at most ${within} with them.`,
    without: "without you",
    within: "with you",
    explained:
      "They guess which of two statements about you is true. From everything else that they know, both statements are equally likely. The numbers hold for all of your answers together.",
    relyLocal: "You rely on your own device and on this page, and on nobody else.",
    relyShuffle: (count: string, noise: boolean) =>
      `You rely on this page, on the mixing party to mix${noise ? " and to add noise" : ""}, on both parties not to work together, and on at least ${people(count)} to take part honestly.`,
  },
  sees: {
    title: "Who can see what",
    collector: "Whoever runs the survey",
    collectorSees: "Your randomized answers, and perhaps who sent them.",
    shuffler: "The mixing party",
    shufflerSees: "That your device answered, and when. Not what you answered.",
    shufflerNoise: "It also adds the noise. So it can compute the exact results once the noisy results are published.",
    analyzer: "The counting party",
    analyzerSees: "Everybody’s messages, mixed. Not who sent which message.",
    both: "Both together",
    bothSee: "All your answers. Then nothing protects you.",
    bothSeeRandomized: (epsilon: string) => `Randomized answers. Only local privacy with ε = ${epsilon} is left.`,
    readers: "Everybody who reads the results",
    readersSee: "Numbers about all people together, with noise that protects each person.",
  },
  some: "Your device asks you only some of the questions. It draws them at random when you begin.",
  asked: (asked: number, all: number) =>
    `Your device asks you ${asked} of ${all} questions, drawn at random. Other people get other questions.`,
  before: (count: number, epsilon: string) =>
    count === 1
      ? `This device has answered 1 other survey here, with ε = ${epsilon}. What surveys reveal about you adds up.`
      : `This device has answered ${count} other surveys here, with ε = ${epsilon} altogether. What surveys reveal about you adds up.`,
  details: {
    title: "Technical details",
    digest: "Fingerprint of the survey (SHA-256)",
    epsilon: "ε, for everything you say together",
    delta: "δ, for everything you say together",
    meaning:
      "Replacing all of your answers by others multiplies the probability of any event by at most e^ε, and then adds at most δ.",
    waves: "The promise covers this many rounds of questions",
    people: "Nothing is analyzed with fewer than",
    peopleCount: people,
    size: "What everybody sends",
    sizeOf: (messages: string, bytes: string) =>
      messages === "1" ? `1 sealed message, ${bytes} bytes` : `${messages} sealed messages, ${bytes} bytes`,
    shuffler: "Mixing party",
    analyzer: "Counting party",
    checked: "What this page has checked",
    checks:
      "The document has the fingerprint that is in this address. Every question has one randomizer, which accepts exactly the possible answers. Sizes and numbers of messages are the same for everybody. The page has computed the ε that is left without the mixing party, and it draws the noise itself.",
    notChecked:
      "The joint δ of all answers depends on everybody’s noise. Both parties compute it from the same document, and so can you with the program headcount.",
    wavesNotChecked: (epsilon: string) =>
      `All rounds of questions together have at most ε = ${epsilon} with δ = 0. This page has checked that. It has not computed the smaller ε that holds with the δ above. You can do so with the program headcount.`,
  },
  consent: {
    title: "Do you want to take part?",
    text: "Taking part is voluntary. Until you send your answers, you may stop at any time. You cannot take them back afterwards.",
    agree: "I have read this, and I want to take part.",
    stored: "Nothing is stored on this device before you agree.",
    begin: "Begin",
    needed: "Please agree before you begin.",
  },
  code: { label: "Invitation code", help: "You got it with your invitation. It works once.", needed: "Please enter your code." },

  // Questions
  yes: "Yes",
  no: "No",
  none: "I prefer not to answer",
  noneHelp: "“No answer” is protected like any other answer.",
  optional: "optional",
  atMost: (count: number) => (count === 1 ? "Choose at most one, or none." : `Choose at most ${count}, or none.`),
  any: "Choose any number of them, or none.",
  range: (low: string, high: string, whole: boolean) =>
    `${whole ? "A whole number" : "A number"} from ${low} to ${high}.`,
  missing: "Please answer this question.",
  missingOptional: "Please answer this question, or choose “I prefer not to answer”.",
  tooMany: (count: number) => `Please choose at most ${count}.`,
  wrongNumber: (low: string, high: string, whole: boolean) =>
    `Please enter a ${whole ? "whole " : ""}number from ${low} to ${high}.`,
  problems: (count: number) => (count === 1 ? "One question needs your attention:" : `${count} questions need your attention:`),
  next: "Check my answers",
  private: "Your answers are only on this device so far.",

  // Review
  review: {
    title: "Your answers",
    text: "Your answers are still only on this device. In the next step, your device randomizes and seals them, once. After that they cannot be changed.",
    change: "Change my answers",
    seal: "Randomize and seal",
    nothing: "none of them",
  },

  // What leaves the device
  leaves: {
    title: "What leaves your device",
    text: (messages: string, bytes: string) =>
      messages === "1"
        ? `Your device sends one sealed message of ${bytes} bytes. Everybody sends one message of the same size.`
        : `Your device sends ${messages} sealed messages, ${bytes} bytes in all. Everybody sends the same number of messages of the same size.`,
    notSent: "Nothing has been sent yet. If you close this page now, nothing will be sent.",
    resume: "Your device sealed your answers earlier, but nobody has confirmed them yet. It can send the same bytes again. This reveals nothing more.",
    inWords: "In words",
    shuffled:
      "Your answers are among these messages. The counting party gets them mixed with everybody else’s, and cannot tell who sent which message, or which messages belong together.",
    hiddenByPeople: "Your device may have added random messages. The random messages of all people together hide each single answer.",
    hiddenByShuffler: "The mixing party adds random messages, which hide each single answer.",
    randomized: "Your device has drawn these at random. They may differ from your answers.",
    asBytes: "The bytes themselves",
    empty: (count: number) => (count === 1 ? "1 empty message" : `${count} empty messages`),
    emptyHelp: "Empty messages make the number of messages the same for everybody.",
    times: (count: number) => `${count} ×`,
    copies: (count: number) => `${count} times`,
    or: (one: string, other: string) => `${one} or ${other}`,
    said: "Message",
    between: (low: string, high: string) => `${low} to ${high}`,
    under: (low: string, high: string) => `${low} to under ${high}`,
    plus: "+1",
    minus: "−1",
    share: (numbers: string) => `random: ${numbers}`,
    shareHelp: "These numbers look random. Only the sum of everybody’s numbers has a meaning.",
    report: (numbers: string) => `the randomized report ${numbers}`,
    reportHelp: "Your device chose this at random. It fits many answers, and your answer need not be among them.",
    noAnswer: "no answer",
    filler: "filler (no further choice)",
    send: "Send",
    sending: "Sending …",
    again: "Send again",
  },

  // Receipt
  receipt: {
    title: "Thank you",
    stored: "Your answers have arrived. The mixing party has stored them, and it cannot open them.",
    storedLocal: "Your randomized answers have arrived, and are stored.",
    next: (count: string) =>
      `When the survey closes, everybody’s messages are mixed and counted together. With fewer than ${people(count)}, nothing is analyzed.`,
    keeps: "This device remembers only that it has answered this survey, and the survey’s ε. It keeps neither your answers nor what was sent. You can close this page now.",
    survey: "Survey",
  },
  already: {
    title: "You have already answered",
    text: "This device has answered this survey, and the answers have arrived. Thank you.",
    why: "A second answer would reveal more about you than the survey promises. So your device sends none.",
  },

  errors: {
    title: "This does not work",
    document: "This survey cannot be answered: its document is damaged, or it is not what its address says. Please tell whoever sent you the link.",
    unsupported: "This page is too old for this survey. Please load it again later, or tell whoever sent you the link.",
    answer: "An answer is missing or out of range. Please check your answers.",
    answered: "This device has already answered this survey. A second answer would reveal more about you than promised.",
    unavailable:
      "The survey cannot be reached at the moment. Your sealed answers stay on this device. Please try again later: the same bytes will be sent.",
    unreachable: "The survey cannot be reached at the moment. Please check your connection, and load this page again.",
    closed: "This survey is closed. It takes no more answers.",
    code: "This invitation code is unknown, or somebody has used it already.",
    refused: "The survey refused the answers. Please tell whoever sent you the link.",
  } satisfies Record<Code | "title" | "unreachable", string>,
};

export type Texts = typeof english;

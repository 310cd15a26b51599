// All texts of the page in German.

import type { Texts } from "./en.js";

const people = (number: string) => `${number} Personen`;

export const german: Texts = {
  language: "Deutsch",
  loading: "Die Umfrage wird geladen …",
  reload: "Noch einmal laden",
  untitled: "Umfrage",
  questions: (count) => (count === 1 ? "1 Frage" : `${count} Fragen`),
  contact: "Kontakt",

  promise: {
    title: "Was wir Ihnen versprechen",
    local:
      "Ihr Gerät verändert Ihre Antworten zufällig, bevor es sie sendet. Wer sieht, was es sendet, kann sich Ihrer wahren Antworten nicht sicher sein.",
    shuffle:
      "Ihre Antworten verlassen Ihr Gerät in versiegelten Nachrichten. Eine Stelle mischt die Nachrichten aller und kann sie nicht öffnen. Eine andere Stelle öffnet die gemischten Nachrichten und kann nicht erkennen, von wem sie stammen.",
    odds: (without, within) =>
      `Von 100 Leuten, die etwas über Sie raten, liegen im Mittel ${without} ohne Ihre Antworten richtig, und mit ihnen höchstens ${within}.`,
    without: "ohne Sie",
    within: "mit Ihnen",
    explained:
      "Sie raten, welche von zwei Aussagen über Sie wahr ist. Nach allem, was sie sonst wissen, sind beide gleich wahrscheinlich. Die Zahlen gelten für alle Ihre Antworten zusammen.",
    relyLocal: "Sie verlassen sich auf Ihr eigenes Gerät und auf diese Seite, und sonst auf niemanden.",
    relyShuffle: (count, noise) =>
      `Sie verlassen sich auf diese Seite und darauf, dass die mischende Stelle mischt${noise ? " und Rauschen hinzufügt" : ""}, dass beide Stellen nicht zusammenarbeiten, und dass mindestens ${people(count)} ehrlich teilnehmen.`,
  },
  sees: {
    title: "Wer was sehen kann",
    collector: "Wer die Umfrage durchführt",
    collectorSees: "Ihre zufällig veränderten Antworten, vielleicht auch, von wem sie stammen.",
    shuffler: "Die mischende Stelle",
    shufflerSees: "Dass Ihr Gerät geantwortet hat, und wann. Nicht, was Sie geantwortet haben.",
    shufflerNoise: "Sie fügt auch das Rauschen hinzu. Daher kann sie die genauen Ergebnisse berechnen, sobald sie veröffentlicht sind.",
    analyzer: "Die zählende Stelle",
    analyzerSees: "Die gemischten Nachrichten aller. Nicht, wer welche Nachricht gesendet hat.",
    both: "Beide zusammen",
    bothSee: "Alle Ihre Antworten. Dann schützt Sie nichts.",
    bothSeeRandomized: (epsilon) => `Zufällig veränderte Antworten. Es bleibt nur lokaler Schutz mit ε = ${epsilon}.`,
    readers: "Alle, die die Ergebnisse lesen",
    readersSee: "Zahlen über alle zusammen, mit Rauschen, das jede einzelne Person schützt.",
  },
  some: "Ihr Gerät stellt Ihnen nur einige der Fragen. Es lost sie aus, wenn Sie beginnen.",
  asked: (asked, all) =>
    `Ihr Gerät stellt Ihnen ${asked} von ${all} Fragen, die es ausgelost hat. Andere bekommen andere Fragen.`,
  before: (count, epsilon) =>
    count === 1
      ? `Dieses Gerät hat hier schon 1 andere Umfrage beantwortet, mit ε = ${epsilon}. Was Umfragen über Sie verraten, summiert sich.`
      : `Dieses Gerät hat hier schon ${count} andere Umfragen beantwortet, zusammen mit ε = ${epsilon}. Was Umfragen über Sie verraten, summiert sich.`,
  details: {
    title: "Technische Einzelheiten",
    digest: "Fingerabdruck der Umfrage (SHA-256)",
    epsilon: "ε, für alle Ihre Antworten zusammen",
    delta: "δ, für alle Ihre Antworten zusammen",
    meaning:
      "Werden alle Ihre Antworten durch andere ersetzt, so wird die Wahrscheinlichkeit jedes Ereignisses mit höchstens e^ε multipliziert, und dann kommt höchstens δ hinzu.",
    waves: "Das Versprechen gilt für so viele Befragungen",
    people: "Nichts wird ausgewertet bei weniger als",
    peopleCount: people,
    size: "Was alle senden",
    sizeOf: (messages, bytes) =>
      messages === "1" ? `1 versiegelte Nachricht, ${bytes} Bytes` : `${messages} versiegelte Nachrichten, ${bytes} Bytes`,
    shuffler: "Mischende Stelle",
    analyzer: "Zählende Stelle",
    checked: "Was diese Seite geprüft hat",
    checks:
      "Das Dokument hat den Fingerabdruck, der in dieser Adresse steht. Jede Frage hat genau ein Zufallsverfahren, das genau ihre Antworten annimmt. Größe und Zahl der Nachrichten sind für alle gleich. Die Seite hat das ε selbst berechnet, das ohne die mischende Stelle bleibt, und sie zieht das Rauschen selbst.",
    notChecked:
      "Das gemeinsame δ aller Antworten hängt vom Rauschen aller ab. Beide Stellen berechnen es aus demselben Dokument, und mit dem Programm headcount können auch Sie das tun.",
    wavesNotChecked: (epsilon) =>
      `Alle Befragungen zusammen haben höchstens ε = ${epsilon} mit δ = 0. Das hat diese Seite geprüft. Das kleinere ε, das mit dem obigen δ gilt, hat sie nicht berechnet. Mit dem Programm headcount können Sie das tun.`,
  },
  consent: {
    title: "Möchten Sie teilnehmen?",
    text: "Die Teilnahme ist freiwillig. Bis Sie Ihre Antworten senden, können Sie jederzeit aufhören. Danach können Sie sie nicht zurücknehmen.",
    agree: "Ich habe das gelesen und möchte teilnehmen.",
    stored: "Bevor Sie zustimmen, wird auf diesem Gerät nichts gespeichert.",
    begin: "Beginnen",
    needed: "Bitte stimmen Sie zu, bevor Sie beginnen.",
  },
  code: {
    label: "Einladungscode",
    help: "Sie haben ihn mit der Einladung erhalten. Er gilt einmal.",
    needed: "Bitte geben Sie Ihren Code ein.",
  },

  yes: "Ja",
  no: "Nein",
  none: "Das möchte ich nicht beantworten",
  noneHelp: "„Keine Antwort“ ist geschützt wie jede andere Antwort.",
  optional: "freiwillig",
  atMost: (count) => (count === 1 ? "Wählen Sie höchstens eine Antwort oder keine." : `Wählen Sie höchstens ${count} Antworten oder keine.`),
  any: "Wählen Sie beliebig viele oder keine.",
  range: (low, high, whole) => `${whole ? "Eine ganze Zahl" : "Eine Zahl"} von ${low} bis ${high}.`,
  missing: "Bitte beantworten Sie diese Frage.",
  missingOptional: "Bitte beantworten Sie diese Frage, oder wählen Sie „Das möchte ich nicht beantworten“.",
  tooMany: (count) => `Bitte wählen Sie höchstens ${count}.`,
  wrongNumber: (low, high, whole) => `Bitte geben Sie eine ${whole ? "ganze " : ""}Zahl von ${low} bis ${high} ein.`,
  problems: (count) => (count === 1 ? "Eine Frage ist noch offen:" : `${count} Fragen sind noch offen:`),
  next: "Antworten prüfen",
  private: "Ihre Antworten sind bisher nur auf diesem Gerät.",

  review: {
    title: "Ihre Antworten",
    text: "Sie sind noch immer nur auf diesem Gerät. Im nächsten Schritt verändert Ihr Gerät sie zufällig und versiegelt sie, ein einziges Mal. Danach lassen sie sich nicht mehr ändern.",
    change: "Antworten ändern",
    seal: "Verändern und versiegeln",
    nothing: "keine davon",
  },

  leaves: {
    title: "Was Ihr Gerät verlässt",
    text: (messages, bytes) =>
      messages === "1"
        ? `Ihr Gerät sendet eine versiegelte Nachricht mit ${bytes} Bytes. Alle senden eine Nachricht von gleicher Größe.`
        : `Ihr Gerät sendet ${messages} versiegelte Nachrichten, zusammen ${bytes} Bytes. Alle senden gleich viele Nachrichten von gleicher Größe.`,
    notSent: "Es wurde noch nichts gesendet. Wenn Sie diese Seite jetzt schließen, bleibt es dabei.",
    resume: "Ihr Gerät hat Ihre Antworten schon versiegelt, aber niemand hat sie bestätigt. Es kann dieselben Bytes noch einmal senden. Das verrät nicht mehr.",
    inWords: "In Worten",
    shuffled:
      "Ihre Antworten sind unter diesen Nachrichten. Die zählende Stelle erhält sie mit denen aller anderen gemischt und kann nicht erkennen, von wem sie stammen und welche zusammengehören.",
    hiddenByPeople: "Vielleicht hat Ihr Gerät zufällige Nachrichten hinzugefügt. Die zufälligen Nachrichten aller zusammen verbergen jede einzelne Antwort.",
    hiddenByShuffler: "Zufällige Nachrichten, die die mischende Stelle hinzufügt, verbergen jede einzelne Antwort.",
    randomized: "Ihr Gerät hat sie zufällig gezogen. Sie können von Ihren Antworten abweichen.",
    asBytes: "Die Bytes selbst",
    empty: (count) => (count === 1 ? "1 leere Nachricht" : `${count} leere Nachrichten`),
    emptyHelp: "Leere Nachrichten sorgen dafür, dass alle gleich viele Nachrichten senden.",
    times: (count) => `${count} ×`,
    copies: (count) => `${count} Mal`,
    or: (one, other) => `${one} oder ${other}`,
    said: "Nachricht",
    between: (low, high) => `${low} bis ${high}`,
    under: (low, high) => `${low} bis unter ${high}`,
    plus: "+1",
    minus: "−1",
    share: (numbers) => `zufällig: ${numbers}`,
    shareHelp: "Diese Zahlen sehen zufällig aus. Nur ihre Summe mit denen aller anderen hat eine Bedeutung.",
    report: (numbers) => `die zufällige Meldung ${numbers}`,
    reportHelp: "Ihr Gerät hat das zufällig gewählt. Es passt zu vielen Antworten, und Ihre Antwort muss nicht darunter sein.",
    noAnswer: "keine Antwort",
    filler: "Füllwert (keine weitere Auswahl)",
    send: "Senden",
    sending: "Wird gesendet …",
    again: "Noch einmal senden",
  },

  receipt: {
    title: "Vielen Dank",
    stored: "Ihre Antworten sind angekommen. Die mischende Stelle hat sie gespeichert und kann sie nicht öffnen.",
    storedLocal: "Ihre zufällig veränderten Antworten sind angekommen und gespeichert.",
    next: (count) =>
      `Wenn die Umfrage endet, werden die Nachrichten aller gemeinsam gemischt und gezählt. Bei weniger als ${people(count)} wird nichts ausgewertet.`,
    keeps: "Dieses Gerät merkt sich nur, dass es diese Umfrage beantwortet hat, und ihr ε. Es behält weder Ihre Antworten noch das Gesendete. Sie können diese Seite jetzt schließen.",
    survey: "Umfrage",
  },
  already: {
    title: "Sie haben schon geantwortet",
    text: "Dieses Gerät hat diese Umfrage beantwortet, und die Antworten sind angekommen. Vielen Dank.",
    why: "Eine zweite Antwort würde mehr über Sie verraten, als die Umfrage verspricht. Deshalb sendet Ihr Gerät keine.",
  },

  errors: {
    title: "Das geht nicht",
    document: "Diese Umfrage lässt sich nicht beantworten: Ihr Dokument ist beschädigt oder nicht das, was die Adresse sagt. Bitte sagen Sie es denen, von denen Sie den Link haben.",
    unsupported: "Diese Seite ist zu alt für diese Umfrage. Bitte laden Sie sie später neu, oder sagen Sie es denen, von denen Sie den Link haben.",
    answer: "Eine Antwort fehlt oder ist außerhalb der Grenzen. Bitte prüfen Sie Ihre Antworten.",
    answered: "Dieses Gerät hat diese Umfrage schon beantwortet. Eine zweite Antwort würde mehr über Sie verraten als versprochen.",
    unavailable:
      "Die Umfrage ist gerade nicht erreichbar. Ihre versiegelten Antworten bleiben auf diesem Gerät. Bitte versuchen Sie es später noch einmal: Es werden dieselben Bytes gesendet.",
    unreachable: "Die Umfrage ist gerade nicht erreichbar. Bitte prüfen Sie Ihre Verbindung und laden Sie die Seite neu.",
    closed: "Diese Umfrage ist beendet. Sie nimmt keine Antworten mehr an.",
    code: "Dieser Einladungscode ist unbekannt oder schon benutzt.",
    refused: "Die Umfrage hat die Antworten abgelehnt. Bitte sagen Sie es denen, von denen Sie den Link haben.",
  },
};

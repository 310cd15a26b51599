// What the researcher's pages do by themselves: show the plan for the slider's epsilon, show the
// number of responses, read a file into the text area, and find the line of an error. Without a
// script, the pages have to be loaded again by hand, and the text of a file has to be pasted.

// While a long computation runs, the page says so.
for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", () => {
    const button = form.querySelector("button");
    if (!button) return;
    const said = document.createElement("p");
    said.className = "note";
    said.setAttribute("role", "status");
    button.setAttribute("aria-disabled", "true");
    form.append(said);
    setTimeout(() => { said.textContent = form.dataset.busy; }, 400);
  });
}
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// When the slider comes to rest, the page shows the plan for it.
const slider = document.querySelector("input[type=range]");
if (slider) {
  slider.form.querySelector(".actions").hidden = true;
  let waiting = 0;
  slider.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => slider.form.requestSubmit(), 600);
  });
}

// The number of responses
const count = document.querySelector("[data-status]");
if (count) {
  const alarm = document.querySelector("#minimum");
  const state = count.dataset.state;
  const look = async () => {
    try {
      const found = await (await fetch(count.dataset.status)).json();
      if (found.state !== state) return location.reload();
      if (count.textContent !== found.count) count.textContent = found.count;
      if (alarm.textContent !== found.minimum) alarm.textContent = found.minimum;
      alarm.className = found.enough ? "note" : "alarm";
    } catch {
      // The next try may succeed.
    }
    return setTimeout(look, 1000);
  };
  setTimeout(look, 1000);
}

// The text of a file
const file = document.querySelector("input[type=file]");
const text = document.querySelector("textarea");
if (file && text) {
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    text.value = await file.files[0].text();
    const name = document.querySelector("#name");
    if (name && !name.value) name.value = file.files[0].name.replace(/\.toml$/, "");
  });
}

// The line of an error
if (text && text.dataset.line) {
  const lines = text.value.split("\n");
  const line = Number(text.dataset.line);
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  text.scrollTop = Math.max(0, (line - 6) * parseFloat(getComputedStyle(text).lineHeight));
}

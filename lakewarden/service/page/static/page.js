"use strict";
// Keeps an open page up to date, and says what the buttons answered. Without a script everything can be read.

// A part that changes is changed in place: the focus, a selection, what is typed and what is open stay. Forms are left alone.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.matches("details, dialog"));
Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node.matches && node.matches("form.filters, output"));

const ASK = 5000; // milliseconds
let gap = 1000; // milliseconds between two loads. A page that takes long is loaded less often.
let tag = null, shown = null, asked = 0, next = null, skew = 0;
const live = () => document.querySelector("#live[hx-get]");
const say = (id, text) => { const one = document.getElementById(id); if (one.textContent !== text) one.textContent = text; };

// A button that nothing answers yet would lose a click.
document.addEventListener("htmx:load", () => document.documentElement.classList.remove("waits"), { once: true });

// The page is loaded again and again, with its tag: the answer may be "nothing new".
function soon(wait) {
  const at = Math.max(Date.now() + wait, asked + gap);
  if (next && next.at <= at) return;
  if (next) window.clearTimeout(next.timer);
  next = { at, timer: window.setTimeout(load, at - Date.now()) };
}
function load() {
  next = null;
  if (document.hidden || !live()) return;
  asked = Date.now();
  soon(ASK);
  document.body.dispatchEvent(new Event("lakewarden:news"));
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(0); });
window.addEventListener("pageshow", () => soon(ASK));

const loads = (verb, source) => verb === "get" && !source.matches("button"); // a button asks, and loads no page
document.addEventListener("htmx:configRequest", ({ detail }) => {
  const typed = detail.headers["HX-Prompt"];
  if (typed) detail.headers["HX-Prompt"] = encodeURIComponent(typed); // a header has no other letters
  if (loads(detail.verb, detail.elt) && tag) detail.headers["If-None-Match"] = tag;
});
document.addEventListener("htmx:afterRequest", ({ detail: { elt, xhr, requestConfig } }) => {
  if (!loads(requestConfig.verb, elt)) return answered(xhr, elt);
  if (xhr.status === 401) window.location.reload(); // the key was revoked
  gap = Math.min(10000, Math.max(1000, 4 * (Date.now() - asked)));
  const well = xhr.status === 200 || xhr.status === 304;
  const told = Date.parse(xhr.getResponseHeader("Date"));
  if (well) {
    tag = xhr.getResponseHeader("ETag");
    if (!Number.isNaN(told)) { skew = told - Date.now(); shown = told; }
    if (shown) say("now", `${new Date(shown).toISOString().slice(0, 19).replace("T", " ")} UTC`);
  }
  say("away", well ? "" : `The page is as of ${document.getElementById("now").textContent}: ` +
    (xhr.status ? `the daemon answered ${xhr.status}.` : "the daemon does not answer."));
});

// Ages count on.
function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  for (const [unit, larger, part, smaller] of [["d", 86400, 3600, "h"], ["h", 3600, 60, "m"], ["m", 60, 1, "s"]]) {
    const rest = Math.floor((seconds % larger) / part);
    if (seconds >= larger) return `${Math.floor(seconds / larger)}${unit}${rest ? ` ${rest}${smaller}` : ""}`;
  }
}
window.setInterval(() => {
  for (const one of document.querySelectorAll("time.age")) {
    const text = span(Math.max(0, Date.now() + skew - Date.parse(one.dateTime)) / 1000) + one.dataset.words;
    if (one.textContent !== text) one.textContent = text;
  }
}, 1000);

// What a button answered, in words.
function answered(xhr, button) {
  const card = button.matches("[hx-get]") ? button.closest("article.service") : null; // a dry run
  const answer = card ? card.querySelector("output") : document.getElementById("answer");
  let text = "done";
  try {
    const body = JSON.parse(xhr.responseText);
    if (body.title) text = [body.detail || body.title, body.remedy].filter(Boolean).join(": ");
    else if (body.says) text = [body.says, body.remedy].filter(Boolean).join(". ");
    else if (body.id) text = `run ${body.id.slice(0, 8)}: ${String(body.state).toLowerCase()}`;
  } catch {
    if (xhr.status === 0) text = "the daemon did not answer";
  }
  answer.classList.toggle("refused", xhr.status === 0 || xhr.status >= 400);
  answer.textContent = text;
  if (card) return;
  window.setTimeout(() => { if (answer.textContent === text) answer.textContent = ""; }, 15000 + 50 * text.length);
  asked = 0;
  soon(0);
}
document.addEventListener("click", async (event) => {
  const source = event.target.closest("[data-copies]");
  if (!source) return;
  await navigator.clipboard.writeText(document.getElementById(source.dataset.copies).textContent);
  say("answer", "copied");
});

// The bar on top: which run and stage, samples or curves, how far the run is; and what deserves a
// look.

import { at, go, listen } from "./address.js";
import { choice, h, show } from "./dom.js";
import { inert, oneLine } from "./inert.js";
import { count } from "./numbers.js";

const THEMES = { light: "dark", dark: "light" };

/** The bar of {title, runs}; `update` shows what the run says of itself now. */
export function makeBar(bar, notices, known, live, help) {
  let run = null;

  function lost() {
    const facts = bar.querySelector(".facts");
    if (facts) show(facts, h("span", { class: "bad" }, "the server does not answer"));
  }

  function update(document = run) {
    run = document;
    const now = at();
    show(bar,
      h("h1", {}, h("span", { class: "brand" }, "retrain"), oneLine(known.title)),
      known.runs.length > 1 ? choice("Stage", known.runs.map((name) => [name, oneLine(name), "A stage of the run"]), now.run, (name) =>
        go({ run: name, sample: "", file: "", split: "", token: "" }, true)) : null,
      choice("View", [["samples", "Episodes", "Episodes"], ["curves", "Curves", "Curves (v)"]], now.view, (view) => go({ view }, true)),
      h("span", { class: "space" }),
      run ? facts(run, live) : null,
      h("button", { type: "button", title: "Dark or light (t)", onclick: toggleTheme, "aria-label": "Dark or light" }, "◐"),
      h("button", { type: "button", title: "Keys (?)", onclick: help, "aria-label": "Keys" }, "?"));
    if (run) showNotices(notices, run);
  }

  listen(() => update());
  return { update, lost };
}

function facts(run, live) {
  const iterations = run.files.filter((file) => file.split === "train").length;
  const reading = run.read < run.total ? `reading ${run.read} of ${run.total} files · ` : "";
  const state = !live ? "a copy in one file" : run.finished ? "finished" : "following";
  return h("span", { class: "facts quiet" }, `${reading}${count(run.episodes)} episodes · ${iterations} iterations · `,
    h("span", { class: state === "following" ? "live" : "" }, state));
}

function showNotices(notices, run) {
  const open = notices.querySelector("details[open]") !== null;
  show(notices,
    run.alarms.length || run.problems.length || run.note
      ? h("details", { open }, h("summary", {}, summary(run)),
        h("ul", {}, [...run.alarms.map((alarm) => alarm.text), ...run.problems, ...(run.note ? [run.note] : [])]
          .map((text) => h("li", {}, ...inert(text)))))
      : null);
}

function summary(run) {
  const names = run.alarms.map((alarm) => alarm.name);
  const parts = names.length ? [`⚠ ${names.join(", ")}`] : [];
  if (run.problems.length) parts.push(run.problems.length === 1 ? "a line could not be read" : `${count(run.problems.length)} lines could not be read`);
  if (run.note) parts.push(run.note);
  return parts.join(" · ");
}

/** Dark or light, as the system has it until somebody says otherwise. */
export function toggleTheme() {
  setTheme(THEMES[document.documentElement.dataset.theme]);
}

/** Take a theme, and remember it. */
export function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("retrain-theme", theme);
  } catch {
    return; // a browser that keeps nothing forgets the theme, that is all
  }
}

/** The theme to begin with. */
export function firstTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try {
    const kept = localStorage.getItem("retrain-theme") ?? system;
    return Object.hasOwn(THEMES, kept) ? kept : system;
  } catch {
    return system;
  }
}

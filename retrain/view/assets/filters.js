// What narrows the list: words, flags, rewards, the split and the order; and the strip of bars, one
// per iteration.

import { at, go, listen } from "./address.js";
import { calmly, draw, h, show } from "./dom.js";
import { count, trimmed } from "./numbers.js";

const ORDERS = [
  ["newest", "newest first"], ["run", "oldest first"], ["reward-down", "best reward first"],
  ["reward-up", "worst reward first"], ["advantage-down", "highest advantage first"],
  ["advantage-up", "lowest advantage first"], ["longest", "longest first"],
  ["slowest", "slowest first"],
];

/** The form; returns what updates it when the run has something new. */
export function makeFilters(form, strip) {
  const words = field("search", "words", "Search in texts and tasks  ( / )");
  const least = field("text", "least", "min");
  const most = field("text", "most", "max");
  const split = h("select", { "aria-label": "Split", onchange: () => go({ split: split.value, file: "" }) });
  const order = h("select", { "aria-label": "Order", onchange: () => go({ order: order.value }) },
    ORDERS.map(([value, text]) => h("option", { value }, text)));
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Only these" });
  let run = null;

  form.addEventListener("submit", (event) => event.preventDefault());
  show(form, words,
    h("div", { class: "row" }, h("span", { class: "quiet" }, "reward"), least, "–", most, split),
    chips, order);

  function update(document = run) {
    run = document;
    if (!run) return;
    const now = at();
    for (const [name, input] of Object.entries({ words, least, most })) {
      if (input !== globalThis.document.activeElement) input.value = now[name];
    }
    order.value = now.order;
    showSplits(split, run.files, now.split);
    show(chips, Object.entries(run.flags).map(([flag, n]) => chip(flag, n, now.flags)));
    show(strip, bars(run.files, now.file));
  }

  listen(() => update());
  return { update, focus: () => words.focus() };
}

function field(type, name, label) {
  const valid = (text) => type === "search" || text === "" || Number.isFinite(Number(text));
  const change = calmly(220, () => {
    input.setAttribute("aria-invalid", String(!valid(input.value)));
    if (valid(input.value)) go({ [name]: input.value });
  });
  const input = h("input", {
    type, name, placeholder: label, "aria-label": label, autocomplete: "off",
    spellcheck: "false", oninput: change,
  });
  return input;
}

function showSplits(select, files, chosen) {
  const splits = [...new Set(files.map((file) => file.split))].sort();
  const options = [["", "all splits"], ...splits.map((split) => [split, `${split} only`])];
  show(select, options.map(([value, text]) => h("option", { value }, text)));
  select.value = chosen;
}

function chip(flag, n, chosen) {
  const flags = new Set(chosen.split(",").filter(Boolean));
  const pressed = flags.has(flag);
  return h("button", {
    type: "button", dataset: { value: flag }, "aria-pressed": String(pressed), disabled: n === 0 && !pressed,
    onclick: () => {
      if (pressed) flags.delete(flag);
      else flags.add(flag);
      go({ flags: [...flags].join(",") });
    },
  }, `${flag} ${count(n)}`);
}

/** Mean reward by samples file; a click keeps the episodes of one. */
function bars(files, chosen) {
  if (files.length < 2) return [];
  const means = files.map((file) => file.mean ?? 0);
  const low = Math.min(0, ...means);
  const high = Math.max(...means, low + 1e-9);
  const width = 1000 / files.length;
  const shapes = files.flatMap((file, place) => {
    const height = 2 + 38 * ((means[place] - low) / (high - low));
    const other = chosen && chosen !== file.file ? "other" : "";
    const kind = file.split === "train" ? "" : "eval";
    const box = { x: place * width, width: Math.max(width * 0.82, 0.5) };
    return [
      draw("rect", { ...box, y: 42 - height, height, class: `${kind} ${other}` }),
      draw("rect", {
        ...box, y: 0, height: 42, class: "hit",
        onclick: () => go({ file: chosen === file.file ? "" : file.file }),
      }, draw("title", {}, `${file.split} ${file.iteration}: mean reward ${trimmed(file.mean)}`)),
    ];
  });
  return [draw("svg", {
    viewBox: "0 0 1000 42", preserveAspectRatio: "none", role: "img",
    "aria-label": "Mean reward by iteration",
  }, shapes)];
}

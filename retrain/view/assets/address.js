// What is shown stands in the address after "#", so that a link leads to the same view, down to a
// token: #run=grpo&sample=12.3&token=0.57&colour=logprob

const DEFAULTS = {
  run: "", view: "samples", sample: "", token: "", pane: "conversation", colour: "mask",
  flags: "", words: "", least: "", most: "", file: "", split: "", order: "newest",
};
const CHOICES = {
  view: ["samples", "curves"], pane: ["conversation", "group", "raw"],
  colour: ["mask", "logprob", "difference", "weights", "segment"],
};
export const QUERY = ["flags", "words", "least", "most", "file", "split", "order"];

const listeners = new Set();
let runs = [];
let current = read();

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const found = Object.fromEntries(
    Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]),
  );
  for (const [name, values] of Object.entries(CHOICES)) {
    if (!values.includes(found[name])) found[name] = DEFAULTS[name];
  }
  if (!runs.includes(found.run)) found.run = runs.at(-1) ?? found.run;
  return found;
}

/** Say which runs there are: an address that names none of them leads to the last one. */
export function setRuns(names) {
  runs = names;
  current = read();
}

/** Say that there are other runs now: what is shown stays, unless its run is gone. */
export function changeRuns(names) {
  runs = names;
  if (names.includes(current.run)) go({});
  else go({ run: names.at(-1), sample: "", file: "", split: "", token: "" });
}

/** What is shown now. */
export function at() {
  return current;
}

/** Show something else; `step` makes an entry that the browser's Back goes to. */
export function go(change, step = false) {
  const before = current;
  current = { ...current, ...change };
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(current)) {
    if (value !== DEFAULTS[name] && (name !== "run" || runs.length > 1)) parts.set(name, value);
  }
  const hash = `#${parts}`;
  if (hash !== location.hash) history[step ? "pushState" : "replaceState"](null, "", hash);
  tell(before);
}

/** Be told what changed: the names, and what is shown now. */
export function listen(listener) {
  listeners.add(listener);
}

function tell(before) {
  const changed = new Set(Object.keys(current).filter((name) => current[name] !== before[name]));
  if (changed.size) listeners.forEach((listener) => listener(changed, current));
}

function arrive() {
  const before = current;
  current = read();
  tell(before);
}

addEventListener("popstate", arrive);
addEventListener("hashchange", arrive); // a link that was typed or pasted

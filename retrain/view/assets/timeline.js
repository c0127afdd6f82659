// Where the time of an episode went: one bar, a stretch per wait.

import { draw, h } from "./dom.js";
import { oneLine } from "./inert.js";
import { seconds } from "./numbers.js";

const KINDS = ["engine", "environment", "reward", "rendering"];

/** The bar and its key. */
export function timeline(episode) {
  const end = Math.max(episode.seconds, 1e-9);
  const stretches = episode.waits.map((wait) =>
    draw("rect", {
      x: (1000 * wait.start) / end, width: Math.max(1.5, (1000 * wait.seconds) / end), y: 0,
      height: 26, class: KINDS.includes(wait.kind) ? wait.kind : "",
    }, draw("title", {}, `${oneLine(wait.kind)}, ${turnOf(wait)}: ${seconds(wait.seconds)}`)));
  const picture = draw("svg", {
    viewBox: "0 0 1000 26", preserveAspectRatio: "none", role: "img", "aria-label": "Timeline",
  }, draw("rect", { width: 1000, height: 26, fill: "var(--panel)" }), stretches);
  return [picture, h("div", { class: "keys" }, KINDS.map((kind) => total(episode, kind)))];
}

function turnOf(wait) {
  return wait.turn < 0 ? "before the first turn" : `turn ${wait.turn + 1}`;
}

function total(episode, kind) {
  const waits = episode.waits.filter((wait) => wait.kind === kind);
  if (!waits.length) return null;
  const sum = waits.reduce((all, wait) => all + wait.seconds, 0);
  return h("span", { class: "key" }, h("i", { class: kind }), `${kind} ${seconds(sum)}`);
}

// The head of an episode: what it was, how it ended, where its reward and its time went.

import { h } from "./dom.js";
import { details } from "./conversation.js";
import { growing, inert, oneLine } from "./inert.js";
import { tone } from "./list_rows.js";
import { count, seconds, signed, trimmed } from "./numbers.js";
import { timeline } from "./timeline.js";

/** The elements of an episode's head. */
export function head(episode) {
  return h("div", { class: "head" },
    h("div", { class: "title" },
      h("h2", {}, ...inert(episode.task.slice(0, 300))),
      episode.flags.map((flag) => h("span", { class: `flag ${flag}` }, flag))),
    factRow(episode),
    faults(episode),
    h("div", { class: "panels" }, rewards(episode), time(episode), about(episode)));
}

function factRow(episode) {
  const where = episode.split === "train" ? `iteration ${episode.iteration}` : `${episode.split} after ${episode.iteration}`;
  const facts = [
    ["Reward", signed(episode.reward), tone(episode.reward)],
    ["Advantage", signed(episode.advantage), tone(episode.advantage)],
    ["Ended", `${episode.status}${episode.stop ? ` (${episode.stop})` : ""}`],
    ["Turns", count(episode.turns)],
    ["Tokens", count(episode.tokens)],
    ["Trained on", count(episode.trained)],
    ["Sample", `${episode.id} · ${where} · slot ${episode.slot + 1}`],
    ...(episode.agent === null ? [] : [["Agent", episode.agent]]),
  ];
  return h("dl", { class: "facts-row" }, facts.map(([name, value, kind]) =>
    h("div", {}, h("dt", {}, name), h("dd", { class: `number ${kind ?? ""}` }, oneLine(value)))));
}

function faults(episode) {
  const found = episode.mask_faults.map((text) => h("p", { class: "fault" }, "Mask: ", ...inert(text)));
  const { boundary, reason, traceback } = episode.error;
  if (reason) {
    found.push(h("div", { class: "fault" }, `Failed at ${oneLine(String(boundary))}: `, growing(String(reason), 4000),
      traceback ? h("details", {}, h("summary", {}, "Traceback"), h("pre", { class: "mono" }, growing(String(traceback)))) : null));
  }
  for (const [name, reason_] of Object.entries(episode.component_failures)) {
    found.push(h("p", { class: "fault" }, `Reward component ${oneLine(name)} failed: ${oneLine(reason_)}`));
  }
  return found;
}

function rewards(episode) {
  const parts = Object.entries(episode.rewards);
  const most = Math.max(1e-9, ...parts.map(([, value]) => Math.abs(value)));
  const rows = parts.map(([name, value]) => {
    const bar = h("i", { class: value < 0 ? "minus" : "" });
    bar.style.width = `${(100 * Math.abs(value)) / most}%`;
    const normalised = Object.hasOwn(episode.normalised, name) ? ` → ${trimmed(episode.normalised[name])}` : "";
    return h("div", { class: "component" }, h("span", {}, oneLine(name)),
      h("span", { class: "bar" }, bar), h("b", { class: "number" }, signed(value) + normalised));
  });
  const trained = episode.trained_reward !== episode.reward
    ? h("p", { class: "quiet" }, `trained on ${signed(episode.trained_reward)}`) : null;
  return h("section", { class: "panel" }, h("h3", {}, "Reward by component"),
    rows.length ? rows : h("p", { class: "quiet" }, "none is known"), trained);
}

function time(episode) {
  const title = episode.seconds ? `Time: ${seconds(episode.seconds)}` : "Time";
  return h("section", { class: "panel timeline" }, h("h3", {}, title),
    episode.waits.length ? timeline(episode) : h("p", { class: "quiet" }, "not recorded"));
}

function about(episode) {
  const label = typeof episode.label === "string" ? episode.label : JSON.stringify(episode.label);
  return h("section", { class: "panel" }, h("h3", {}, "Task"),
    episode.label === null ? null : h("p", {}, h("span", { class: "quiet" }, "label "), ...inert(label.slice(0, 500))),
    details("Prompt, metadata and seed", { prompt: episode.prompt, metadata: episode.metadata, seed: episode.seed }));
}

// One row of the list: a samples file, a group, or an episode.

import { h } from "./dom.js";
import { oneLine } from "./inert.js";
import { count, signed, trimmed } from "./numbers.js";

const MOST_DOTS = 16;

/** The element of a row; `chosen` is the id of the episode that is open. */
export function row(found, chosen) {
  if (found.kind === "file") return fileRow(found);
  if (found.kind === "group") return groupRow(found);
  return sampleRow(found, found.id === chosen);
}

function fileRow(file) {
  const name = file.split === "train" ? `Iteration ${file.iteration}` : `${file.split} after ${file.iteration}`;
  const shown = file.shown === file.episodes ? count(file.episodes) : `${count(file.shown)} of ${count(file.episodes)}`;
  return h("div", { class: "item file" },
    h("span", { class: "grow" }, oneLine(name), h("span", { class: "quiet" }, `  ${shown} episodes`)),
    h("span", { class: "quiet number", title: "mean reward" }, `mean ${trimmed(file.mean)}`));
}

function groupRow(group) {
  const spread = group.spread === null ? "" : ` ± ${trimmed(group.spread)}`;
  return h("div", { class: "item group", title: "Click to see the group side by side" },
    h("span", { class: "grow task" }, oneLine(group.task)),
    group.zero_variance ? h("span", { class: "flag zero-variance" }, "no variance") : null,
    dots(group.rewards),
    h("span", { class: "quiet number" }, `${trimmed(group.mean)}${spread}`));
}

/** One square per episode: full where its reward is the group's best. */
export function dots(rewards) {
  const known = rewards.filter((reward) => reward !== null);
  const best = Math.max(...known);
  const kind = (reward) => {
    if (reward === null || reward === 0) return "";
    if (reward < 0) return "minus";
    return reward === best ? "full" : "part";
  };
  const shown = rewards.length > 1 ? rewards.slice(0, MOST_DOTS) : [];
  return h("span", { class: "dots", "aria-hidden": "true" },
    shown.map((reward) => h("i", { class: `dot ${kind(reward)}` })));
}

function sampleRow(sample, chosen) {
  return h("div", {
    class: `item sample ${sample.lone ? "lone" : ""}`, role: "option", "aria-selected": String(chosen), dataset: { id: sample.id },
  },
    h("span", { class: `reward number ${tone(sample.reward)}` }, signed(sample.reward)),
    sample.lone ? h("span", { class: "task" }, oneLine(sample.task.slice(0, 24))) : null,
    sample.agent === null ? null : h("span", { class: "quiet", title: "agent" }, oneLine(sample.agent.slice(0, 16))),
    h("span", { class: "grow preview mono" }, oneLine(sample.preview)),
    sample.flags.filter((flag) => flag !== "zero-variance").map((flag) =>
      h("span", { class: `flag ${flag}` }, flag)),
    h("span", { class: "quiet number", title: "turns, tokens" }, `${sample.turns}t ${count(sample.tokens)}`));
}

/** Good above nothing, bad below. */
export function tone(reward) {
  if (reward === null) return "quiet";
  return reward > 0 ? "good" : reward < 0 ? "bad" : "quiet";
}

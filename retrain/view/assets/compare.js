// The episodes of a group side by side.

import { go } from "./address.js";
import { h } from "./dom.js";
import { growing, oneLine } from "./inert.js";
import { tone } from "./list_rows.js";
import { count, signed, trimmed } from "./numbers.js";

/** The group of an episode. */
export async function showGroup(source, run, episode) {
  const group = await source.group(run, episode.group_id);
  const spread = group.spread === null ? "" : `, standard deviation ${trimmed(group.spread)}`;
  const note = group.zero_variance ? " All rewards are equal: nothing is learned from this group." : "";
  const left = group.left_out ? ` ${count(group.left_out)} more are not shown.` : "";
  return [
    h("p", { class: "segment-head" }, `${group.episodes.length} episodes of ${oneLine(group.task)}: mean reward ${trimmed(group.mean)}${spread}.${note}${left}`),
    h("div", { class: "side-by-side" }, group.episodes.map((one) => column(one, one.id === episode.id))),
  ];
}

function column(one, here) {
  return h("article", { class: here ? "here" : "" },
    h("header", {},
      h("button", {
        type: "button", title: "Open this episode",
        onclick: () => go({ sample: one.id, pane: "conversation", token: "" }, true),
      }, `${one.slot + 1}`),
      h("b", { class: `number ${tone(one.reward)}` }, ` ${signed(one.reward)} `),
      one.agent === null ? null : h("span", { class: "quiet" }, `${oneLine(one.agent)} `),
      h("span", { class: "quiet number" }, `advantage ${signed(one.advantage)} · ${count(one.tokens)} tokens `),
      one.flags.filter((flag) => flag !== "zero-variance").map((flag) => h("span", { class: `flag ${flag}` }, flag))),
    one.problem === null ? null : h("p", { class: "fault" }, oneLine(one.problem)),
    one.spans.map((span) => h("pre", { class: `said mono ${span.author}` },
      growing(span.text.replace(/^\n+/, ""), 3000), span.cut ? h("span", { class: "quiet" }, ` … ${count(span.cut)} more characters`) : null)));
}

// The open episode: its head, and under it the conversation, its group, or its raw rows.

import { at, go, listen } from "./address.js";
import { showGroup } from "./compare.js";
import { conversation } from "./conversation.js";
import { choice, h, show } from "./dom.js";
import { head } from "./head.js";
import { inert } from "./inert.js";
import { json } from "./json.js";
import { COLOURINGS, keyOf } from "./shades.js";
import { openToken, pin, watchTokens } from "./pinned.js";
import { fillChunk, shadeChunk } from "./tokens.js";

const PANES = [
  ["conversation", "Conversation", "What was said (c)"],
  ["group", "Group", "The episodes of its group side by side (g)"],
  ["raw", "Raw", "The rows as they stand in the file (r)"],
];

/** The episode in an element; `source` answers. */
export function makeEpisode(element, tip, source) {
  let episode = null;
  let asked = 0;
  const watcher = watchTokens(element, () => episode);
  const body = h("div", { class: "body" });
  const tools = h("div", { class: "tools" });

  async function load() {
    const { run, sample } = at();
    const now = (asked += 1);
    if (!sample) {
      episode = null;
      show(element, h("p", { class: "nothing" }, "Choose an episode on the left, or press j."));
      return;
    }
    try {
      const found = await source.episode(run, sample);
      if (now !== asked) return;
      episode = found;
      element.scrollTop = 0;
      show(element, head(episode), tools, body);
      await showPane();
    } catch (error) {
      if (now !== asked) return;
      episode = null;
      show(element, refused(error));
    }
  }

  async function showPane() {
    watcher.forget();
    showTools();
    const { pane, run } = at();
    const mine = episode;
    const content = await contentOf(pane, run, mine).catch(refused);
    if (mine !== episode || pane !== at().pane) return;
    show(body, content);
    const here = body.querySelector("article.here");
    if (here) {
      const left = here.getBoundingClientRect().left - body.getBoundingClientRect().left;
      here.parentElement.scrollLeft = left - 60;
    }
    openToken(body, at().token, (chunk) => fillChunk(chunk, episode));
  }

  async function contentOf(pane, run, mine) {
    if (pane === "group") return showGroup(source, run, mine);
    if (pane === "raw") return raw(source, run, mine.id);
    return conversation(mine, watcher, (image) => source.image(run, mine.id, image));
  }

  function showTools() {
    const { pane, colour } = at();
    const inTokens = pane === "conversation";
    show(tools,
      choice("Pane", PANES, pane, (value) => go({ pane: value })),
      inTokens ? choice("Colour", COLOURINGS, colour, (value) => go({ colour: value })) : null,
      inTokens ? keyRow(colour) : null);
  }

  function keyRow(colour) {
    if (colour === "difference" && episode.streams.every((stream) => stream.trainer === null)) {
      return h("span", { class: "quiet" }, "this run did not record the trainer's logprobs of it, or the row of them is damaged");
    }
    return h("span", { class: "keys" }, keyOf(colour, episode).map(([shade, text]) =>
      h("span", { class: "key" }, h("span", { class: `t mono ${shade}` }, "token"), ...inert(text))));
  }

  function recolour() {
    showTools();
    body.querySelectorAll(".chunk").forEach((chunk) => shadeChunk(chunk, episode));
  }

  tip.follow(body, () => episode);
  body.addEventListener("click", (event) => pin(event, body));
  listen((changed) => {
    if (changed.has("sample") || changed.has("run")) load();
    else if (episode && changed.has("pane")) showPane();
    else if (episode && changed.has("colour")) recolour();
    else if (episode && changed.has("token")) {
      openToken(body, at().token, (chunk) => fillChunk(chunk, episode));
    }
  });
  return { load, current: () => episode };
}

function refused(error) {
  return h("p", { class: "nothing", role: "alert" }, ...inert(error.message));
}

async function raw(source, run, sample) {
  const { rows } = await source.raw(run, sample);
  return rows.map((row) => h("pre", { class: "json mono" }, json(row)));
}

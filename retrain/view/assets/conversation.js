// An episode as a conversation: one block per author and turn.

import { h } from "./dom.js";
import { gallery } from "./gallery.js";
import { growing, oneLine } from "./inert.js";
import { json } from "./json.js";
import { count, signed } from "./numbers.js";
import { spanTokens } from "./tokens.js";

const NAMES = { prompt: "Prompt", model: "Model", environment: "Environment" };

/** The blocks of all segments; `sourceOf` gives the address of an image. */
export function conversation(episode, watcher, sourceOf) {
  if (episode.turns === 0) {
    return h("p", { class: "nothing" }, "It ended before the model's first turn: its tokens only keep its place in the batch.");
  }
  const several = episode.streams.length > 1;
  const inexact = episode.streams.some((stream) => !stream.exact);
  return [
    inexact ? h("p", { class: "fault" }, "This run did not record which token wrote which characters: each stretch shows its text on its first token.") : null,
    ...episode.streams.flatMap((stream, place) => [
      several ? h("p", { class: "segment-head" }, `Segment ${place + 1} of ${episode.streams.length}: the history was rewritten here`) : null,
      stream.images.length ? gallery(stream.images, sourceOf) : null,
      ...stream.spans.map((span) => block(episode, place, span, watcher)),
      stream.left_out ? h("p", { class: "fault" }, `${count(stream.left_out)} more tokens are not shown.`) : null,
    ]),
  ];
}

function block(episode, streamPlace, span, watcher) {
  return h("article", { class: `block ${span.author}` },
    h("header", {}, h("b", {}, NAMES[span.author]), facts(episode.streams[streamPlace], span)),
    spanTokens(episode, streamPlace, span, watcher),
    (span.action?.tool_calls ?? []).map(call),
    problem(span),
    Object.keys(span.info ?? {}).length ? details("Environment's info", span.info) : null);
}

function facts(stream, span) {
  const n = span.end - span.start;
  const found = [n === 1 ? "1 token" : `${count(n)} tokens`];
  if (span.author === "model") {
    const trained = stream.mask.slice(span.start, span.end).filter(Boolean).length;
    found.unshift(`turn ${span.turn + 1}`);
    found.push(trained === n ? "all trained on" : `${count(trained)} trained on`);
    found.push(`weights ${span.versions.map(([, version]) => version).join(", ")}`);
    if (span.finish && span.finish !== "stop") found.push(`ended by ${span.finish}`);
    if (span.reward) found.push(`reward ${signed(span.reward)}`);
    if (span.cached) found.push(`${count(span.cached)} cached`);
  }
  return found.map((text) => h("span", {}, oneLine(text)));
}

function call(given) {
  const parts = Object.entries(given.arguments ?? {}).map(([name, value]) =>
    h("div", { class: "argument mono" }, h("span", { class: "quiet" }, oneLine(name)),
      h("pre", {}, growing(typeof value === "string" ? value : JSON.stringify(value)))));
  return h("div", { class: "call" }, h("b", { class: "mono" }, `${oneLine(String(given.name))}()`), parts);
}

function problem(span) {
  const error = span.action?.parse_error;
  if (!error) return null;
  return h("p", { class: "call bad" }, "No tool call could be read: ", growing(String(error)));
}

/** A value under a heading that opens. */
export function details(title, value) {
  return h("details", { class: "data" }, h("summary", {}, title), h("pre", { class: "json mono" }, json(value)));
}

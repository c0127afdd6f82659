// The tokens of a span, in chunks: a chunk is one piece of text until it comes into sight, and one
// element per token from then on.

import { at } from "./address.js";
import { h } from "./dom.js";
import { growing, inert, isPlain } from "./inert.js";
import { shadeOf } from "./shades.js";

const CHUNK = 400; // tokens, up to the next line break
const LONGEST_CHUNK = 1600;
const LONGEST_TOKEN = 4000; // characters

/** What is known of the token at a place of a stream. */
export function tokenAt(episode, streamPlace, place) {
  const stream = episode.streams[streamPlace];
  const span = stream.spans.find((one) => place < one.end);
  const sampled = span?.author === "model";
  const logprob = sampled ? (stream.logprobs?.[place] ?? null) : null;
  const trainer = stream.trainer?.[place] ?? null;
  const version = sampled ? versionOf(span, place) : null;
  return {
    id: stream.ids[place], text: stream.texts[place], mask: stream.mask[place], sampled, logprob,
    trainer, difference: logprob === null || trainer === null ? null : trainer - logprob,
    version, versionPlace: episode.weight_versions.indexOf(version), stream: streamPlace, place,
    author: span?.author, turn: span?.turn,
  };
}

function versionOf(span, place) {
  let left = place - span.start;
  for (const [tokens, version] of span.versions) {
    if (left < tokens) return version;
    left -= tokens;
  }
  return span.versions.at(-1)?.[1] ?? null;
}

/** The chunks of a span; they are filled by `watcher` when they come into sight. */
export function spanTokens(episode, streamPlace, span, watcher) {
  const holder = h("div", { class: "tokens mono" });
  const { texts } = episode.streams[streamPlace];
  for (const [start, end] of chunks(texts, span.start, span.end)) {
    const chunk = h("div", { class: "chunk", dataset: { stream: streamPlace, start, end } });
    const text = texts.slice(start, end).join("");
    if (text.length <= LONGEST_TOKEN * 4) chunk.append(...inert(text));
    holder.append(chunk);
    watcher.observe(chunk);
  }
  return holder;
}

function* chunks(texts, from, end) {
  let start = from;
  for (let place = from; place < end; place += 1) {
    const size = place + 1 - start;
    const breaks = texts[place].endsWith("\n");
    if ((size >= CHUNK && breaks) || size >= LONGEST_CHUNK) {
      yield [start, place + 1];
      start = place + 1;
    }
  }
  if (start < end) yield [start, end];
}

/** Put one element per token into a chunk. */
export function fillChunk(chunk, episode) {
  if (chunk.dataset.filled) return;
  chunk.dataset.filled = "1";
  const stream = Number(chunk.dataset.stream);
  const shade = shadeOf(at().colour);
  const elements = [];
  for (let place = Number(chunk.dataset.start); place < Number(chunk.dataset.end); place += 1) {
    elements.push(tokenElement(tokenAt(episode, stream, place), shade));
  }
  chunk.replaceChildren(...elements);
}

function tokenElement(token, shade) {
  const element = document.createElement("span");
  element.className = tokenClass(token, shade);
  element.dataset.at = token.place;
  if (token.text.length > LONGEST_TOKEN) element.append(growing(token.text, LONGEST_TOKEN));
  else if (isPlain(token.text)) element.textContent = token.text;
  else element.append(...inert(token.text));
  return element;
}

function tokenClass(token, shade) {
  const breaks = token.text.startsWith("\n") ? " nl" : "";
  const part = token.text === "" ? " part" : "";
  return `t ${shade(token)}${breaks}${part}`;
}

/** Shade the tokens of a filled chunk anew. */
export function shadeChunk(chunk, episode) {
  if (!chunk.dataset.filled) return;
  const stream = Number(chunk.dataset.stream);
  const shade = shadeOf(at().colour);
  for (const element of chunk.children) {
    const pinned = element.classList.contains("pinned");
    element.className = tokenClass(tokenAt(episode, stream, Number(element.dataset.at)), shade);
    element.classList.toggle("pinned", pinned);
  }
}

// Tokens in sight, and the one token that the address names.

import { at, go } from "./address.js";
import { fillChunk } from "./tokens.js";

/** Fills chunks when they come near the part of `scroller` that is in sight. */
export function watchTokens(scroller, episode) {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && episode()) {
        observer.unobserve(entry.target);
        fillChunk(entry.target, episode());
      }
    }
  }, { root: scroller, rootMargin: "600px 0px" });
  return { observe: (chunk) => observer.observe(chunk), forget: () => observer.disconnect() };
}

/** Mark the token "STREAM.PLACE" and bring it into sight. */
export function openToken(body, token, fill) {
  body.querySelector(".t.pinned")?.classList.remove("pinned");
  const [stream, place] = token.split(".").map(Number);
  if (!token || Number.isNaN(place)) return;
  const chunk = [...body.querySelectorAll(".chunk")].find((one) =>
    Number(one.dataset.stream) === stream && Number(one.dataset.start) <= place && place < Number(one.dataset.end));
  if (!chunk) return;
  fill(chunk);
  const element = chunk.children[place - Number(chunk.dataset.start)];
  element.classList.add("pinned");
  element.scrollIntoView({ block: "nearest" });
  const box = element.getBoundingClientRect();
  if (box.bottom > innerHeight || box.top < 120) element.scrollIntoView({ block: "center" });
}

/** Put the token that was clicked into the address; a second click takes it out. */
export function pin(event, body) {
  const element = event.target.closest?.(".t[data-at]");
  if (!element || !body.contains(element) || String(getSelection())) return;
  const chunk = element.closest(".chunk");
  const token = `${chunk.dataset.stream}.${element.dataset.at}`;
  go({ token: token === at().token ? "" : token });
}

/** Go to the token beside the marked one. */
export function stepToken(episode, direction) {
  if (!episode) return;
  const [stream, place] = (at().token || "0.-1").split(".").map(Number);
  const next = place + direction;
  if (next >= 0 && next < episode.streams[stream]?.ids.length) go({ token: `${stream}.${next}` });
}

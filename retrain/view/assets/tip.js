// What is known of the token under the pointer, or of the marked one.

import { h, show } from "./dom.js";
import { oneLine } from "./inert.js";
import { signed, trimmed } from "./numbers.js";
import { tokenAt } from "./tokens.js";

const LONGEST = 200;

/** The box; `follow` makes it tell of the tokens in an element. */
export function makeTip(box) {
  const hide = () => { box.hidden = true; };

  function tell(element, episode) {
    const chunk = element.closest(".chunk");
    const token = tokenAt(episode, Number(chunk.dataset.stream), Number(element.dataset.at));
    show(box, h("dl", {}, facts(token).flatMap(([name, value]) => [
      h("dt", {}, name), h("dd", { class: name === "text" ? "mono" : "" }, value),
    ])));
    box.hidden = false;
    place(box, element);
  }

  function follow(body, episode) {
    body.addEventListener("pointerover", (event) => {
      const element = event.target.closest?.(".t[data-at]");
      if (element && episode()) tell(element, episode());
      else hide();
    });
    body.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, true);
  return { follow, hide };
}

function facts(token) {
  const text = token.text.length > LONGEST ? `${token.text.slice(0, LONGEST)}…` : token.text;
  const found = [
    ["id", String(token.id)],
    ["text", token.text === "" ? "shares the characters of the token before" : `“${oneLine(text)}”`],
    ["mask", token.mask ? "1: trained on" : `0: ${token.sampled ? "sampled, not trained on" : `not sampled (${token.author})`}`],
    ["position", `${token.place} of segment ${token.stream + 1}`],
  ];
  if (token.logprob !== null) {
    found.push(["logprob", `${trimmed(token.logprob)} nats (p ${trimmed(Math.exp(token.logprob))})`]);
  }
  if (token.trainer !== null) {
    found.push(["trainer", `${trimmed(token.trainer)} nats (train − rollout ${signed(token.difference)})`]);
  }
  if (token.version !== null) found.push(["weights", oneLine(token.version)], ["turn", String(token.turn + 1)]);
  return found;
}

function place(box, element) {
  const rect = element.getClientRects()[0] ?? element.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = box;
  const below = rect.bottom + 8 + height < innerHeight;
  box.style.left = `${Math.max(8, Math.min(rect.left, innerWidth - width - 8))}px`;
  box.style.top = `${below ? rect.bottom + 8 : Math.max(8, rect.top - height - 8)}px`;
}

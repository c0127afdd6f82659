// The keys.

import { at, go } from "./address.js";
import { toggleTheme } from "./bar.js";
import { h } from "./dom.js";
import { stepToken } from "./pinned.js";
import { COLOURINGS } from "./shades.js";

const HELP = [
  ["j, ↓", "next episode"], ["k, ↑", "episode before"], ["→, ←", "next token, token before"],
  ["/", "search"], ["1 … 5", COLOURINGS.map(([, name]) => name).join(", ")],
  ["c, g, r", "conversation, group, raw rows"], ["v", "episodes or curves"],
  ["t", "dark or light"], ["Esc", "leave the search; unmark the token"], ["?", "this help"],
];

/** Listen to keys; returns what opens the help. */
export function makeKeys(list, filters, episode) {
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("dl", {}, HELP.flatMap(([keys, meaning]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, meaning)])),
    h("p", { class: "quiet" }, "Click a token to mark it: the address then leads to it."),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  document.body.append(dialog);
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  const actions = {
    j: () => list.step(1), ArrowDown: () => list.step(1),
    k: () => list.step(-1), ArrowUp: () => list.step(-1),
    ArrowRight: () => stepToken(episode.current(), 1),
    ArrowLeft: () => stepToken(episode.current(), -1),
    "/": () => filters.focus(), "?": help, t: toggleTheme,
    c: () => go({ pane: "conversation" }), g: () => go({ pane: "group" }), r: () => go({ pane: "raw" }),
    v: () => go({ view: at().view === "curves" ? "samples" : "curves" }, true),
    Escape: () => go({ token: "" }),
    ...Object.fromEntries(COLOURINGS.map(([name], place) => [String(place + 1), () => go({ colour: name })])),
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = event.target.matches?.("input, select, textarea");
    if (writing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (dialog.open && event.key !== "?") return;
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
  return help;
}

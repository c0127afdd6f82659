// The images that a stream shows.

import { h } from "./dom.js";
import { oneLine } from "./inert.js";
import { count } from "./numbers.js";

const LEFT_OUT = "is left out of this file, which holds as many as fit";

/** Images in their order; `sourceOf` gives the address of one by its id, or null. A click enlarges. */
export function gallery(images, sourceOf) {
  const heading = images.length === 1 ? "1 image" : `${count(images.length)} images`;
  return h("section", { class: "gallery", "aria-label": heading },
    images.map((image) => figure(image, sourceOf(image.id))));
}

function figure(image, address) {
  const name = oneLine(image.name);
  const why = image.why ?? (address === null ? LEFT_OUT : null);
  if (why !== null) return missing(name, why);
  const shown = h("img", {
    src: address, alt: name, loading: "lazy",
    onerror: () => all.replaceWith(missing(name, "cannot be drawn")),
  });
  const button = h("button", {
    type: "button", title: "Larger or smaller", "aria-pressed": "false",
    onclick: () => button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false")),
  }, shown);
  const all = h("figure", {}, button, h("figcaption", { title: name }, lastOf(name)));
  return all;
}

function missing(name, why) {
  return h("figure", { class: "missing" }, h("b", { title: name }, lastOf(name)), ` ${oneLine(why)}`);
}

function lastOf(name) {
  return name.startsWith("data:") ? "in the row itself" : name.split("/").at(-1);
}

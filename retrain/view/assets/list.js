// The list of episodes: only the rows in sight exist, and only the pages of rows near them are
// asked for, so that 20,000 episodes cost as much as 20.

import { at, go, listen, QUERY } from "./address.js";
import { h } from "./dom.js";
import { oneLine } from "./inert.js";
import { row } from "./list_rows.js";
import { count } from "./numbers.js";

const ROW = 34; // pixels, as in list.css
const PAGE = 100;
const KEPT_PAGES = 30;
const AROUND = 8;

/** The list in an element; `source` answers, and `counter` says how many there are. */
export function makeList(element, counter, source) {
  const canvas = h("div");
  const empty = h("p", { class: "nothing", hidden: true });
  const drawn = new Map();
  const pages = new Map();
  const asked = new Set();
  let total = 0;
  let generation = 0;
  let cursor = -1;
  let version = -1;
  let revealed = ""; // the episode that was brought into sight last
  element.append(empty, canvas);

  const query = () => Object.fromEntries(QUERY.map((name) => [name, at()[name]]));
  const rowAt = (place) => pages.get(Math.floor(place / PAGE))?.[place % PAGE];

  async function ask(page, more = {}) {
    if (asked.has(page)) return null;
    asked.add(page);
    const now = generation;
    const wanted = { ...query(), ...more, start: page * PAGE, count: PAGE };
    const answer = await source.list(at().run, wanted).catch((error) => ({ error }));
    asked.delete(page);
    if (now !== generation) return null;
    if (answer.error) {
      if (!total) refuse(answer.error);
      return null;
    }
    keep(page, answer);
    return answer;
  }

  function refuse(error) {
    empty.hidden = false;
    empty.textContent = oneLine(error.message);
  }

  function keep(page, answer) {
    pages.set(page, answer.rows);
    if (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value);
    total = answer.total;
    version = answer.version;
    canvas.style.height = `${total * ROW}px`;
    counter.textContent = answer.episodes === 1 ? "1 episode" : `${count(answer.episodes)} episodes`;
    paint();
  }

  /** Show the rows in sight; one that stands there already stays, so that a click is not lost. */
  function paint() {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - AROUND);
    const end = Math.min(total, first + Math.ceil(element.clientHeight / ROW) + 2 * AROUND);
    const wanted = new Map();
    for (let place = first; place < end; place += 1) {
      const found = rowAt(place);
      if (found) wanted.set(`${place} ${found.id === at().sample} ${JSON.stringify(found)}`, place);
      else ask(Math.floor(place / PAGE));
    }
    for (const [key, shown] of drawn) {
      if (wanted.has(key)) continue;
      shown.remove();
      drawn.delete(key);
    }
    for (const [key, place] of wanted) {
      if (!drawn.has(key)) drawn.set(key, canvas.appendChild(placed(rowAt(place), place)));
    }
    empty.hidden = total > 0 || version < 0;
    empty.textContent = nothing();
  }

  function nothing() {
    const narrowed = QUERY.some((name) => name !== "order" && at()[name]);
    return narrowed ? "No episode fits." : "No episodes yet: samples/ of this run is empty.";
  }

  function placed(found, place) {
    const shown = row(found, at().sample);
    shown.style.transform = `translateY(${place * ROW}px)`;
    if (found.kind === "sample" && found.id === at().sample) cursor = place;
    shown.addEventListener("click", () => open(found, place));
    return shown;
  }

  function open(found, place) {
    if (found.kind === "file") return;
    cursor = place;
    revealed = found.kind === "sample" ? found.id : found.ids[0];
    if (found.kind === "sample") go({ sample: found.id, token: "" }, true);
    else go({ sample: found.ids[0], token: "", pane: "group" }, true);
  }

  /** Ask for everything again, and go to an episode where the list has it. */
  async function reload({ keepPlace = false } = {}) {
    const find = at().sample;
    const before = total;
    generation += 1;
    asked.clear();
    pages.clear();
    const page = keepPlace ? Math.floor(element.scrollTop / ROW / PAGE) : 0;
    const answer = await ask(page, { find });
    if (!keepPlace) element.scrollTop = 0;
    else if (element.scrollTop > 0 && at().order === "newest") {
      element.scrollTop += (total - before) * ROW; // what is new stands above
    }
    if (!answer || answer.found < 0 || find !== at().sample) return;
    if (revealed === find) cursor = answer.found;
    else reveal(answer.found, find);
  }

  function reveal(place, id) {
    cursor = place;
    revealed = id;
    const top = place * ROW;
    const out = top < element.scrollTop || top + ROW > element.scrollTop + element.clientHeight;
    if (out) element.scrollTop = Math.max(0, top - element.clientHeight / 3);
    paint();
  }

  /** Go to the next episode in one direction (1 or -1). */
  async function step(direction) {
    for (let place = cursor + direction; place >= 0 && place < total; place += direction) {
      if (!rowAt(place)) await ask(Math.floor(place / PAGE));
      const found = rowAt(place);
      if (!found) return;
      if (found.kind === "sample") {
        open(found, place);
        reveal(place, found.id);
        return;
      }
    }
  }

  element.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(element);
  listen((changed) => {
    if (changed.has("run") || QUERY.some((name) => changed.has(name))) {
      cursor = -1;
      revealed = "";
      reload();
    } else if (changed.has("sample")) {
      paint();
      if (at().sample && at().sample !== revealed) reload({ keepPlace: true }); // Back, or a link
    }
  });
  return { reload, step, version: () => version };
}

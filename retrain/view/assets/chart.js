// One drawing: lines over iterations, the values under the pointer, a click to see the episodes.

import { draw, h } from "./dom.js";
import { oneLine } from "./inert.js";
import { trimmed } from "./numbers.js";

const WIDTH = 460;
const HEIGHT = 170;
const EDGE = { left: 46, right: 10, top: 8, bottom: 20 };
const MOST_DOTTED = 12;

/** The figure of {title, unit, lines: {name: {iterations, values}}}. */
export function chart(given, open) {
  const lines = Object.entries(given.lines).map(([name, series], place) => ({ name, ...series, shade: `draw-${(place % 6) + 1}` }));
  const scale = scales(lines);
  const now = draw("line", { class: "now", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": given.title },
    grid(scale), lines.flatMap((line) => drawn(line, scale)), now);
  const values = lines.map((line) => h("span", { class: "number" }, trimmed(line.values.at(-1))));
  point(picture, now, lines, scale, values, open);
  return h("figure", { class: "chart", "data-title": given.title },
    h("h3", {}, given.title, h("span", { class: "quiet" }, given.unit === "1" ? "" : given.unit)),
    picture,
    h("div", { class: "legend" }, lines.map((line, place) => h("span", {}, sign(line.shade), ` ${oneLine(line.name)} `, values[place]))));
}

function scales(lines) {
  const xs = lines.flatMap((line) => line.iterations);
  const ys = lines.flatMap((line) => line.values);
  const [left, right] = ends(xs);
  const ticks = niceTicks(...ends(ys));
  const [low, high] = [ticks[0], ticks.at(-1)];
  const inWidth = WIDTH - EDGE.left - EDGE.right;
  const inHeight = HEIGHT - EDGE.top - EDGE.bottom;
  return {
    left, right, ticks,
    x: (value) => EDGE.left + (inWidth * (value - left)) / (right - left || 1),
    y: (value) => HEIGHT - EDGE.bottom - (inHeight * (value - low)) / (high - low || 1),
    iteration: (x) => left + ((x - EDGE.left) / inWidth) * (right - left),
  };
}

/** The least and the greatest value; a call's arguments would not hold a long list. */
function ends(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

/** Three to six round values around a range: steps of 1, 2 or 5 times a power of ten. */
export function niceTicks(low, high) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9) * step;
  const ticks = [];
  for (let n = 0; n < 12; n += 1) {
    ticks.push(first + n * step);
    if (first + n * step >= high - step * 1e-9) break;
  }
  return ticks.length > 1 ? ticks : [first, first + step];
}

function grid(scale) {
  const rows = scale.ticks.flatMap((tick) => [
    draw("line", { class: "grid", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: scale.y(tick), y2: scale.y(tick) }),
    draw("text", { x: EDGE.left - 6, y: scale.y(tick) + 3.5, "text-anchor": "end" }, trimmed(tick)),
  ]);
  const ends = scale.left === scale.right ? [scale.left] : [scale.left, scale.right];
  return [...rows, ...ends.map((value, place) =>
    draw("text", { x: scale.x(value), y: HEIGHT - 5, "text-anchor": place ? "end" : "start" }, String(value)))];
}

function drawn(line, scale) {
  const path = line.iterations.map((iteration, place) => `${place ? "L" : "M"}${scale.x(iteration).toFixed(1)} ${scale.y(line.values[place]).toFixed(1)}`).join("");
  const shapes = [draw("path", { d: path, class: line.shade })];
  if (line.values.length > MOST_DOTTED) return shapes;
  return [...shapes, ...line.values.map((value, place) =>
    draw("circle", { cx: scale.x(line.iterations[place]), cy: scale.y(value), class: line.shade }))];
}

function sign(shade) {
  return draw("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, draw("path", { d: "M0 5H22", class: shade }));
}

function point(picture, now, lines, scale, values, open) {
  const iterationAt = (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const wanted = scale.iteration(x);
    const all = lines.flatMap((line) => line.iterations);
    return all.reduce((best, one) => (Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best), all[0]);
  };
  const tell = (iteration) => lines.forEach((line, place) => {
    const found = iteration === null ? line.values.length - 1 : line.iterations.indexOf(iteration);
    values[place].textContent = found < 0 ? "" : `${trimmed(line.values[found])}${iteration === null ? "" : ` at ${iteration}`}`;
  });
  picture.addEventListener("pointermove", (event) => {
    const iteration = iterationAt(event);
    now.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) now.setAttribute(end, scale.x(iteration));
    tell(iteration);
  });
  picture.addEventListener("pointerleave", () => {
    now.setAttribute("visibility", "hidden");
    tell(null);
  });
  picture.addEventListener("click", (event) => open(iterationAt(event)));
}

// The curves of the run, drawn anew when it has something new.

import { at, go } from "./address.js";
import { chart } from "./chart.js";
import { h, show } from "./dom.js";

/** The curves in an element; `source` answers. */
export function makeCurves(element, source) {
  async function load() {
    const { run } = at();
    const { charts } = await source.charts(run).catch(() => ({ charts: null }));
    if (run !== at().run || charts === null) return; // the bar says that nobody answers
    if (!charts.length) {
      show(element, h("p", { class: "nothing" }, "No metrics yet: they appear with the first iteration."));
      return;
    }
    const place = element.scrollTop;
    show(element, h("div", { class: "charts" }, charts.map((one) => chart(one, openIteration))));
    element.scrollTop = place;
  }

  function openIteration(iteration) {
    go({ view: "samples", file: String(iteration), sample: "" }, true);
  }
  return { load };
}

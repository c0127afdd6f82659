// The page: puts its parts together, and tells them when the run has something new.

import { at, changeRuns, listen, setRuns } from "./address.js";
import { firstTheme, makeBar, setTheme } from "./bar.js";
import { makeCurves } from "./curves.js";
import { calmly, h, show } from "./dom.js";
import { makeEpisode } from "./episode.js";
import { makeFilters } from "./filters.js";
import { inert } from "./inert.js";
import { makeKeys } from "./keys.js";
import { makeList } from "./list.js";
import { openSource } from "./source.js";
import { makeTip } from "./tip.js";

const $ = (id) => document.getElementById(id);

async function start() {
  setTheme(firstTheme());
  const source = openSource();
  const known = await source.runs();
  setRuns(known.runs);

  const list = makeList($("list"), $("count"), source);
  const filters = makeFilters($("filters"), $("strip"));
  const episode = makeEpisode($("episode"), makeTip($("tip")), source);
  const curves = makeCurves($("curves"), source);
  const help = makeKeys(list, filters, episode);
  const bar = makeBar($("bar"), $("notices"), known, source.live, help);
  document.title = `${known.title} – retrain view`;

  let close = () => undefined;
  const refresh = calmly(150, async () => {
    const { runs } = await source.runs().catch(() => known);
    if (runs.length && runs.join("/") !== known.runs.join("/")) {
      known.runs = runs;
      changeRuns(runs);
      bar.update();
    }
    const run = await source.run(at().run).catch(bar.lost);
    if (run?.name !== at().run) return;
    bar.update(run);
    filters.update(run);
    if (run.version !== list.version()) await list.reload({ keepPlace: true });
    if (at().view === "curves") await curves.load();
  });

  function openRun() {
    close();
    refresh();
    close = source.follow(at().run, refresh, bar.lost);
  }

  function showView() {
    const inCurves = at().view === "curves";
    $("samples").hidden = inCurves;
    $("curves").hidden = !inCurves;
    if (inCurves) curves.load();
  }

  listen((changed) => {
    if (changed.has("run")) openRun();
    if (changed.has("view")) showView();
  });
  bar.update();
  openRun();
  showView();
  list.reload();
  await episode.load();
}

start().catch((error) => {
  show(document.body, h("p", { class: "nothing", role: "alert" }, "The page could not start: ", ...inert(error.message)));
  throw error;
});

// The data of a single file: the same answers as the server's, from what the file holds.

/** Answer from the file: {title, runs: [{name, run, charts, rows, episodes, images, raw, groups}]}. */
export function packedSource(packed) {
  const runs = new Map(packed.runs.map((run) => [run.name, run]));
  for (const run of packed.runs) {
    for (const row of run.rows) if (row.kind === "sample") row.words = wordsOf(row, run.episodes[row.id]);
  }
  const answer = async (run, part, id) => {
    const held = runs.get(run)?.[part] ?? {};
    const found = Object.hasOwn(held, id) ? held[id] : null;
    if (!found) throw new Error(`this file does not hold ${id}; look at the run folder for it`);
    return found;
  };
  return {
    live: false,
    runs: async () => ({ title: packed.title, runs: [...runs.keys()] }),
    run: async (run) => runs.get(run).run,
    list: async (run, query) => window(listed(runs.get(run).rows, query), query),
    episode: (run, id) => answer(run, "episodes", id),
    image: (run, id, image) => runs.get(run).images[image] ?? null,
    raw: (run, id) => answer(run, "raw", id),
    group: (run, id) => answer(run, "groups", id),
    charts: async (run) => runs.get(run).charts,
    follow: () => () => undefined,
  };
}

function wordsOf(row, episode) {
  const texts = (episode?.streams ?? []).map((stream) => stream.texts.join(""));
  return [row.task, ...texts, episode?.error.reason ?? ""].join("\n").toLowerCase();
}

function window(rows, query) {
  const start = Number(query.start ?? 0);
  return {
    version: 0,
    start,
    total: rows.length,
    episodes: rows.filter((row) => row.kind === "sample").length,
    found: query.find ? rows.findIndex((row) => row.kind === "sample" && row.id === query.find) : -1,
    rows: rows.slice(start, start + Number(query.count ?? 100)),
  };
}

const SORTS = {
  "reward-down": (row) => (row.reward === null ? Infinity : -row.reward),
  "reward-up": (row) => row.reward ?? Infinity,
  "advantage-down": (row) => -row.advantage,
  "advantage-up": (row) => row.advantage,
  longest: (row) => -row.tokens,
  slowest: (row) => -row.seconds,
};

/** The rows that a query admits; `rows` stand in the order of the run, heads before episodes. */
function listed(rows, query) {
  const sort = SORTS[query.order];
  if (sort) {
    const episodes = rows.filter((row) => row.kind === "sample" && admits(row, query));
    return episodes.sort((one, other) => sort(one) - sort(other)).map((row) => ({ ...row, lone: true }));
  }
  const files = [];
  for (const row of rows) {
    if (row.kind === "file") files.push([]);
    files.at(-1).push(row);
  }
  if (query.order !== "run") files.reverse();
  return files.flatMap((file) => withHeads(file, query));
}

function withHeads(file, query) {
  const kept = [];
  let group = null;
  for (const row of file) {
    if (row.kind === "group") group = row;
    if (row.kind !== "sample" || !admits(row, query)) continue;
    if (group && !row.lone) kept.push(group);
    group = null;
    kept.push(row);
  }
  const shown = kept.filter((row) => row.kind === "sample").length;
  return shown ? [{ ...file[0], shown }, ...kept] : [];
}

function admits(row, query) {
  const flags = (query.flags ?? "").split(",").filter(Boolean);
  if (flags.length && !flags.some((flag) => row.flags.includes(flag))) return false;
  if (query.split && row.split !== query.split) return false;
  if (query.file && row.id.slice(0, row.id.lastIndexOf(".")) !== query.file) return false;
  if ((query.least || query.most) && row.reward === null) return false;
  if (query.least && row.reward < Number(query.least)) return false;
  if (query.most && row.reward > Number(query.most)) return false;
  return !query.words || row.words.includes(query.words.trim().toLowerCase());
}

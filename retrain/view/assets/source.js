// Where the page's data comes from: the server, or the page itself where it is a single file.

import { packedSource } from "./packed.js";

/** Ask the server. */
function servedSource() {
  const path = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;
  return {
    live: true,
    runs: () => ask("/api/runs"),
    run: (run) => ask(path("run", run)),
    list: (run, query) => ask(`${path("list", run)}?${new URLSearchParams(query)}`),
    episode: (run, id) => ask(path("episode", run, id)),
    image: (run, id, image) => path("image", run, id, image),
    raw: (run, id) => ask(path("raw", run, id)),
    group: (run, id) => ask(path("group", run, id)),
    charts: (run) => ask(path("charts", run)),
    follow: (run, changed, lost) => follow(path("events", run), changed, lost),
  };
}

async function ask(url) {
  const answer = await fetch(url).catch(() => {
    throw new Error("the server does not answer");
  });
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(document.error ?? `the server answers ${answer.status}`);
  return document;
}

function follow(url, changed, lost) {
  let events = null;
  const close = () => {
    events?.close();
    events = null;
  };
  const open = () => {
    close();
    if (document.hidden) return; // a browser keeps six connections for all tabs together
    events = new EventSource(url); // it tries again by itself
    events.addEventListener("error", lost);
    events.addEventListener("change", changed);
  };
  document.addEventListener("visibilitychange", open);
  open();
  return () => {
    document.removeEventListener("visibilitychange", open);
    close();
  };
}

/** The page's data. */
export function openSource() {
  const packed = document.getElementById("packed");
  return packed ? packedSource(JSON.parse(packed.textContent)) : servedSource();
}

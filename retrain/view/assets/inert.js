// Text that models, tools and users wrote, shown so that it can do nothing but be read: characters
// that steer a terminal, reorder a line or cannot be seen stand as escapes.

const UNSEEN = /[\p{Cc}\p{Cs}\p{Cf}\p{Zl}\p{Zp}]/u;
const ALL_UNSEEN = new RegExp(UNSEEN.source, "gu");
const HARMLESS = new Set(["\n", "\t", "\u200c", "\u200d"]); // line, tab and the joiners of scripts

/** Whether a text holds a character that is shown as an escape. */
export function isPlain(text) {
  if (!UNSEEN.test(text)) return true;
  return ![...text.matchAll(ALL_UNSEEN)].some(([found]) => !HARMLESS.has(found));
}

/** The nodes that show a text. */
export function inert(text) {
  if (isPlain(text)) return [document.createTextNode(text)];
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(ALL_UNSEEN)) {
    if (HARMLESS.has(match[0])) continue;
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    nodes.push(escape(match[0]));
    from = match.index + match[0].length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** A text as plain text in one line, escapes included. */
export function oneLine(text) {
  return text.replaceAll(ALL_UNSEEN, (found) => (found === "\u200c" || found === "\u200d" ? found : code(found)));
}

function escape(character) {
  const element = document.createElement("i");
  element.className = "esc";
  element.textContent = code(character);
  return element;
}

function code(character) {
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  if (short) return short;
  const point = character.codePointAt(0);
  if (point <= 0xff) return `\\x${point.toString(16).padStart(2, "0")}`;
  if (point <= 0xffff) return `\\u${point.toString(16).padStart(4, "0")}`;
  return `\\U${point.toString(16).padStart(8, "0")}`;
}

/** The beginning of a long text, and a button for more of it. */
export function growing(text, step = 20000) {
  const holder = document.createElement("span");
  let shown = 0;
  const more = () => {
    const end = Math.min(text.length, shown + step);
    holder.querySelector("button")?.remove();
    holder.append(...inert(text.slice(shown, end)));
    shown = end;
    if (shown === text.length) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `… ${(text.length - shown).toLocaleString("en")} more characters`;
    button.addEventListener("click", more);
    holder.append(button);
  };
  more();
  return holder;
}

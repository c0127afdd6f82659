// Making elements. Text only ever enters as text: nothing here, or anywhere, parses HTML.

/** An element with attributes, listeners (`onclick`), a dataset and children. */
export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, given);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The same for drawings. */
export function draw(tag, given = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, given);
  element.append(...children.flat());
  return element;
}

function fill(element, given) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Put children in place of what an element holds; the button that had the focus keeps it. */
export function show(element, ...children) {
  const focused = document.activeElement;
  const name = element.contains(focused) && focused.matches("button") ? nameOf(focused) : null;
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined),
  );
  if (name === null) return;
  const same = [...element.querySelectorAll("button")].find((button) => nameOf(button) === name);
  same?.focus({ preventScroll: true });
}

function nameOf(button) {
  return button.dataset.value ?? button.getAttribute("aria-label");
}

/** A group of buttons of which one is pressed. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text, title]) =>
    h("button", {
      type: "button", title, dataset: { value }, "aria-pressed": String(value === chosen),
      onclick: () => choose(value),
    }, text));
  return h("div", { class: "switch", role: "group", "aria-label": label }, buttons);
}

/** Call a function once the calls have stopped for a while. */
export function calmly(milliseconds, call) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}

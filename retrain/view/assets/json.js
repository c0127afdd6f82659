// A JSON value as text with its parts told apart; long texts and lists open by and by.

import { growing, oneLine } from "./inert.js";

const LONGEST_LIST = 400;

/** The nodes of a value. */
export function json(value, indent = "") {
  if (typeof value === "string") return part("s", growing(JSON.stringify(value), 4000));
  if (value === null || typeof value !== "object") return part("n", String(value));
  const holder = document.createElement("span");
  if (Array.isArray(value)) list(holder, value, indent);
  else object(holder, value, indent);
  return holder;
}

function list(holder, values, indent) {
  const flat = values.every((value) => value === null || typeof value !== "object");
  const inner = `${indent}  `;
  const gap = flat ? " " : `\n${inner}`;
  holder.append("[");
  values.slice(0, LONGEST_LIST).forEach((value, place) => {
    holder.append(place ? `,${gap}` : flat ? "" : gap, json(value, inner));
  });
  if (values.length > LONGEST_LIST) holder.append(rest(values, indent));
  holder.append(flat || !values.length ? "]" : `\n${indent}]`);
}

function rest(values, indent) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `… ${(values.length - LONGEST_LIST).toLocaleString("en")} more`;
  button.addEventListener("click", () => button.replaceWith(", ", json(values.slice(LONGEST_LIST), indent)));
  return button;
}

function object(holder, value, indent) {
  const names = Object.keys(value);
  const inner = `${indent}  `;
  holder.append("{");
  names.forEach((name, place) => {
    holder.append(`${place ? "," : ""}\n${inner}`, part("k", oneLine(JSON.stringify(name))), ": ", json(value[name], inner));
  });
  holder.append(names.length ? `\n${indent}}` : "}");
}

function part(kind, content) {
  const element = document.createElement("span");
  element.className = kind;
  element.append(content);
  return element;
}

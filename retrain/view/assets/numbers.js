// Numbers as people read them.

/** A reward or an advantage: a sign where it has one, three digits at most. */
export function signed(value) {
  if (value === null || value === undefined) return "–";
  const text = trimmed(Math.abs(value));
  return value < 0 ? `−${text}` : value > 0 ? `+${text}` : "0";
}

/** A number with about four digits. */
export function trimmed(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100000 || size < 0.0001) return value.toExponential(2).replace(/\.?0+e/, "e");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  const text = value.toFixed(digits === 3 && size < 0.01 ? 5 : digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A count with separators. */
export function count(value) {
  return value.toLocaleString("en");
}

/** Seconds with a unit. */
export function seconds(value) {
  if (value >= 90) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value >= 1) return `${trimmed(value)} s`;
  return value >= 0.001 ? `${trimmed(value * 1000)} ms` : `${trimmed(value * 1e6)} µs`;
}

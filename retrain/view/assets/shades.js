// What each colouring says of a token: its class, and the key of the classes.

const LOW = [0.9, 0.7, 0.5, 0.25, 0.1, 0.02]; // probabilities: below one of them is a darker shade
const GAPS = [0.01, 0.05, 0.2, 0.5]; // nats

export const COLOURINGS = [
  ["mask", "Mask", "Which tokens are trained on (1)"],
  ["logprob", "Logprob", "How probable the engine found each sampled token (2)"],
  ["difference", "Train − rollout", "The trainer's logprob minus the engine's (3)"],
  ["weights", "Weights", "Which weights sampled each token (4)"],
  ["segment", "Segment", "Which token stream each token is of (5)"],
];

/** How one token is shaded: `token` as `tokenAt` gives it. */
const SHADES = {
  mask: (token) => (token.mask ? "trained" : token.sampled ? "skipped" : "given"),
  logprob: (token) => (token.logprob === null ? "given" : lowShade(Math.exp(token.logprob))),
  difference: (token) => {
    if (token.difference === null) return "given";
    const step = GAPS.filter((gap) => Math.abs(token.difference) >= gap).length;
    if (step === 0) return "";
    return `${token.difference > 0 ? "up" : "down"}-${step}`;
  },
  weights: (token) => (token.version === null ? "given" : kind(token.versionPlace)),
  segment: (token) => kind(token.stream),
};

/** The shading of a colouring; that of the mask where there is none of the name. */
export function shadeOf(colouring) {
  return Object.hasOwn(SHADES, colouring) ? SHADES[colouring] : SHADES.mask;
}

function lowShade(probability) {
  const step = LOW.filter((least) => probability < least).length;
  return step ? `low-${step}` : "";
}

function kind(place) {
  return `kind-${(place % 6) + 1}`;
}

/** The key of a colouring: [class, what it means]. */
export function keyOf(colouring, episode) {
  if (colouring === "mask") {
    return [["trained", "trained on"], ["skipped", "sampled, not trained on"], ["given", "not sampled"]];
  }
  if (colouring === "logprob") {
    return [["", `p ≥ ${LOW[0]}`], ...LOW.map((least, place) => [`low-${place + 1}`, `< ${least}`])];
  }
  if (colouring === "difference") {
    const ups = GAPS.map((gap, place) => [`up-${place + 1}`, `≥ +${gap}`]).reverse();
    const downs = GAPS.map((gap, place) => [`down-${place + 1}`, `≤ −${gap}`]);
    return [...ups, ["", "equal"], ...downs];
  }
  if (colouring === "weights") {
    return episode.weight_versions.map((version, place) => [kind(place), version]);
  }
  return episode.streams.map((_, place) => [kind(place), `segment ${place + 1}`]);
}

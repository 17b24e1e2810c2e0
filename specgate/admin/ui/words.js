// Numbers with their units, and sentences. Nothing here touches the page.

export const LANES = ["spec", "plain"];
export const NONE = "–";

export const other = (lane) => (lane === "spec" ? "plain" : "spec");

/** With so many digits after the point, and thousands apart. */
export function number(value, digits = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** As short as can be: 6.5, 12, 0.375. */
export const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

export const count = (value, one, many = `${one}s`) =>
  `${number(value)} ${Math.abs(value) === 1 ? one : many}`;

export const sequences = (value, digits = 2) => `${number(value, digits)} sequences`;

export const rate = (value) => (value === null ? NONE : `${number(value, value > 0 && value < 10 ? 1 : 0)} tok/s`);

/** A latency: seconds in milliseconds below one, as people read them. */
export function latency(seconds) {
  if (seconds === null) return NONE;
  if (seconds === 0) return "0 s";
  if (seconds >= 1) return `${number(seconds, 2)} s`;
  return `${number(seconds * 1000, seconds < 0.1 ? 1 : 0)} ms`;
}

/** The same on an axis. */
export const latencyTick = (seconds) =>
  seconds === 0 ? "0 s" : seconds < 1 ? `${short(seconds * 1000)} ms` : `${short(seconds)} s`;

/** A span of time in its two greatest units. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return "0 s";
  const told = parts.slice(first, first + 2).filter(([value]) => value > 0);
  return told.map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** Time of day where the reader is. `at`: seconds since the epoch, a Date, or its text. */
export function clock(at, withSeconds = true) {
  const when = typeof at === "number" ? new Date(at * 1000) : new Date(at);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = `${two(when.getHours())}:${two(when.getMinutes())}`;
  return withSeconds ? `${minutes}:${two(when.getSeconds())}` : minutes;
}

/** The band's name and ends; one number where it is a single edge. */
export function band(low, high) {
  if (low === null || high === null) return "no edge";
  if (low === high) return `edge at ${short(high)} sequences`;
  return `band ${short(low)} to ${short(high)} sequences`;
}

/** A sentence of what is told without a capital and a full stop. */
export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

export function acceptLength(accept) {
  if (accept === null) return "No profile says with which accept length it was measured.";
  const pays = accept.live >= accept.break_even;
  const apart = number(Math.abs(accept.live - accept.break_even), 2);
  const learnt =
    accept.age_s === null ? "nothing was learnt from the engine yet" : `learnt ${span(accept.age_s)} ago`;
  return (
    `${number(accept.live, 2)} ± ${number(accept.standard_error, 2)} tokens a step, ${apart} ` +
    `${pays ? "above" : "below"} the break-even of ${number(accept.break_even, 2)}: at this load ` +
    `speculation ${pays ? "pays" : "costs"}. In the measurement ${number(accept.bench, 2)}; ${learnt}` +
    `${accept.followed ? "" : "; the gate does not follow it"}.`
  );
}

/** The meter: what the gate gained by the profile, against each lane alone. */
export function gained(weighing) {
  if (weighing === null) return "There is no profile to reckon by.";
  if (!weighing.sequences) return "Nothing came yet.";
  const { against_plain: plain, against_spec: spec, sequences: over } = weighing;
  const tail = plain.low_s === null ? ", which has no intervals" : "";
  return (
    `On the mean over ${count(over, "sequence")}, one took ${against(plain)} with all on plain, and ` +
    `${against(spec)} with all on spec. Reckoned by the profile${tail}, not measured.`
  );
}

function against({ low_s: low, mean_s: mean, high_s: high }) {
  if (low === null || high === null) return sooner(mean);
  if (isNothing(low) && isNothing(high)) return "as long as";
  if (low < 0 && high > 0) return `${amount(mean)} (from ${amount(low)} to ${amount(high)}: it may be nothing) than`;
  const [least, most] = mean < 0 ? [-high, -low] : [low, high];
  return `${amount(mean)} (${seconds(least)} to ${seconds(most)}) than`;
}

const seconds = (value) => `${number(value, 3)} s`;
const amount = (gain) => `${seconds(Math.abs(gain))} ${gain < 0 ? "longer" : "less"}`;
const isNothing = (gain) => Math.abs(gain) < 0.0005;
const sooner = (gain) => (isNothing(gain) ? "as long as" : `${amount(gain)} than`);

export function experiment(weighing) {
  const found = weighing?.experiment ?? null;
  if (found === null) return "None is tried.";
  const spent = `It has spent ${span(found.spent_s)} on the side that the policy would not have chosen`;
  const tail = `${spent}${found.running ? ", and a pair of blocks is under way" : ""}.`;
  if (found.faster === null) return `No pair of blocks was measured whole yet. ${tail}`;
  const interval =
    found.low === null || found.high === null
      ? "no interval before two pairs"
      : `90 % interval ${number(found.low, 2)} to ${number(found.high, 2)}`;
  const expected =
    found.expected === null ? "" : `; the profile expects ${number(found.expected, 2)} times`;
  return (
    `At low load speculation is ${number(found.faster, 2)} times as fast as plain (${interval}, over ` +
    `${count(found.pairs, "pair")} of blocks${expected}). ${tail}`
  );
}

// The load against the band, drawn from 0: where each lane is better, where the gate changes side,
// and the way that is left until there. Where lanes are weighed the load alone changes no side, so
// what staying costs is drawn below, against the price of a switch.

import { band, number, other, sequences } from "./words.js";

const byId = (id) => document.getElementById(id);

let scale = 0; // the right end, in sequences

export function drawGauge(status) {
  const { low, high, away } = status.ahead;
  const load = shown(status);
  scale = fit(Math.max(high === null ? load * 1.4 : high * 1.5, load * 1.1, 1));
  const per = (value) => `${(100 * Math.min(1, Math.max(0, value / scale))).toFixed(2)}%`;

  byId("gauge-zones").replaceChildren(
    ...zones(status, low, high).map(([from, to, kind]) => {
      const zone = document.createElement("div");
      zone.dataset.zone = kind;
      zone.style.left = per(from);
      zone.style.width = `calc(${per(to)} - ${per(from)})`;
      return zone;
    }),
  );
  byId("gauge-marker").style.left = per(load);

  const way = byId("gauge-way");
  const target = away === null ? load : load + away;
  way.style.left = per(Math.min(load, target));
  way.style.width = `calc(${per(Math.max(load, target))} - ${per(Math.min(load, target))})`;
  way.dataset.way = target === load ? "none" : target > load ? "up" : "down";

  label("gauge-load", per(load), `load ${sequences(load)}${left(away, weighs(status))}`);
  const middle = high === null ? scale / 2 : (low + high) / 2;
  label("gauge-edge", per(middle), band(low, high));
  ticks(per);
  drawPrice(status);
}

/** Whether the side is decided by the price of a switch. */
const weighs = (status) => status.weighing !== null && status.placement !== "split";

function drawPrice(status) {
  const shown = weighs(status) && status.mode === "auto";
  byId("price").hidden = !shown;
  if (!shown) return;
  const share = 100 * status.weighing.regret;
  const there = other(status.side);
  byId("price-track").dataset.to = there;
  byId("price-paid").style.width = `${Math.min(100, share).toFixed(1)}%`;
  const words = `Towards a switch to ${there}: ${number(share)} % of its price. At 100 % it is worth it.`;
  if (byId("price-words").textContent !== words) byId("price-words").textContent = words;
}

/** What the gate holds against the edges: with lanes of their own GPUs, the spec lane's count. */
const shown = (status) => (status.placement === "split" ? status.in_flight.spec : status.load);

function left(away, weighed) {
  if (away === null) return "";
  const way = number(Math.abs(away), 2);
  if (weighed) return `, ${way} ${away < 0 ? "above" : "below"} the edge`;
  return `, ${way} ${away < 0 ? "less" : "more"} to switch`;
}

/** Which side is better between two loads: spec, plain, or open where the side stays what it was. */
function zones(status, low, high) {
  const all = [];
  const { weighing, threshold } = status;
  if (weighs(status)) {
    all.push([0, scale, "plain"]);
    for (const [from, to] of weighing.pays) all.push([from, to ?? scale, "spec"]);
    if (low !== null && low < high) all.push([low, high, "open"]);
  } else if (high !== null) {
    all.push([0, low, "spec"], [low, high, "open"], [high, scale, "plain"]);
  } else {
    all.push([0, scale, threshold === "always" ? "spec" : "plain"]);
  }
  return all.filter(([from, to]) => from < scale && to > from);
}

function label(id, per, words) {
  const node = byId(id);
  node.style.setProperty("--at", per);
  if (node.textContent !== words) node.textContent = words;
}

function ticks(per) {
  const step = [1, 2, 2.5, 5, 10, 20].map((each) => each * power(scale) * 0.1);
  const every = step.find((each) => scale / each <= 6) ?? scale;
  const values = [];
  for (let value = 0; value <= scale * 1.0001; value += every) values.push(value);
  const key = values.join();
  const node = byId("gauge-ticks");
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(
    ...values.map((value) => {
      const tick = document.createElement("span");
      tick.style.left = per(value);
      tick.textContent = value.toLocaleString("en", { maximumSignificantDigits: 3 });
      return tick;
    }),
  );
}

const power = (value) => 10 ** Math.floor(Math.log10(value));

/** A round right end that stays while it does, so that the edges do not wander. */
function fit(wanted) {
  if (wanted <= scale && wanted > scale / 3) return scale;
  const unit = power(wanted);
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((each) => each * unit).find((each) => each >= wanted);
}

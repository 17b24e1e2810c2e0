// What an operator may change, with the gate's admin token, and the form that takes the token.

import { at } from "./feed.js";
import { put } from "./now.js";
import { asksReaders, authorised, hasToken, isToken, keep, onToken } from "./token.js";
import { LANES, count, other, short } from "./words.js";

const OFF =
  "This gate was started without SPECGATE_ADMIN_TOKEN, so nothing can be changed here. Start it with one to use the controls.";
const LOCKED = asksReaders
  ? "This gate shows nothing without its admin token."
  : "Type the gate's admin token to change something. Reading needs none.";
const OPEN = "Changes act at once, and a restart ends them.";

const byId = (id) => document.getElementById(id);
const each = (selector, act) => document.querySelectorAll(selector).forEach(act);

const changeable = document.documentElement.dataset.changes === "on";

let latest = null;
let busy = false;

/** `changed`: called with what the gate answers to a change of its state. */
export function startControls(changed) {
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    take(byId("token").value.trim());
    byId("token").value = "";
  });
  byId("token-forget").addEventListener("click", () => {
    keep("");
    tell("The token is forgotten.");
    byId("token").focus();
  });
  each("[data-mode]", (button) => button.addEventListener("click", () => setMode(button.dataset.mode, changed)));
  each("[data-threshold]", (button) =>
    button.addEventListener("click", () => setThreshold(button.dataset.threshold, changed)),
  );
  each("[data-drain]", (button) => button.addEventListener("click", () => drain(button.dataset.drain)));
  byId("threshold-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = byId("threshold").value.trim();
    const value = Number(typed);
    if (typed === "" || !Number.isFinite(value) || value <= 0) {
      tell("The threshold is a number of sequences above 0.", true);
      byId("threshold").focus();
    } else {
      setThreshold(value, changed);
    }
  });
  byId("reload").addEventListener("click", () => reload(changed));
  onToken(lock);
  lock();
}

function take(typed) {
  if (typed && !isToken(typed)) return tell("The token has characters that no header can carry.", true);
  keep(typed);
  if (!typed) return tell("No token was typed.", true);
  return tell(asksReaders ? "The token is kept in this tab." : "The token is kept in this tab. The next change tries it.");
}

/** Each second. */
export function showControls(status) {
  latest = status;
  each("[data-mode]", (button) => button.setAttribute("aria-pressed", String(button.dataset.mode === status.mode)));
  for (const lane of LANES) {
    put(document.querySelector(`[data-drain="${lane}"]`), `${isDraining(lane) ? "Undrain" : "Drain"} ${lane}`);
  }
  const drained = LANES.filter(isDraining);
  put(byId("drain-words"), drained.map(drainWords).join(" ") || "Neither lane is being drained.");
  const { threshold } = status;
  const now = typeof threshold === "number" ? `${short(threshold)} sequences` : (threshold ?? "not set");
  put(
    byId("threshold-words"),
    status.weighing
      ? "The gate weighs by its profile. A threshold set here takes the profile's place."
      : `Now: ${now}.`,
  );
}

const isDraining = (lane) => latest.lanes[lane].draining;

function drainWords(lane) {
  const inHand = latest.lanes[lane].in_hand;
  if (!inHand) return `${lane} has nothing in hand: its engine may stop.`;
  return `${lane} gets nothing new, and still has ${count(inHand, "request")} in hand.`;
}

async function setMode(mode, changed) {
  const asked = `Send all new requests to ${mode}, whatever the load? It holds until the mode is auto again.`;
  if (mode !== "auto" && !(await confirmed(asked, `Force ${mode}`))) return;
  const status = await call("PUT", "mode", { mode });
  if (!status) return;
  changed(status);
  tell(mode === "auto" ? "The policy decides again." : `The mode is ${mode}.`);
}

async function setThreshold(threshold, changed) {
  const asked = "The gate weighs by its profile. Use a threshold in its place, until the next reload?";
  if (latest?.weighing && !(await confirmed(asked, "Use a threshold"))) return;
  const status = await call("PUT", "threshold", { threshold });
  if (!status) return;
  changed(status);
  byId("threshold").value = "";
  tell(`The threshold is ${typeof threshold === "number" ? `${short(threshold)} sequences` : threshold}.`);
}

async function drain(lane) {
  if (isDraining(lane)) {
    if (await call("POST", `lanes/${lane}/undrain`)) tell(`${lane} gets new requests again.`);
    return;
  }
  const asked = `Send ${lane} nothing new? What it has in hand ends there, and ${other(lane)} serves the rest.`;
  if (!(await confirmed(asked, `Drain ${lane}`))) return;
  if (await call("POST", `lanes/${lane}/drain`)) tell(`${lane} is being drained.`);
}

async function reload(changed) {
  const found = await call("POST", "reload");
  if (!found) return;
  changed(null);
  const parts = [found.changed.length ? `Changed: ${found.changed.join(", ")}.` : "Nothing changed."];
  if (found.needs_restart.length) parts.push(`A restart is needed for: ${found.needs_restart.join(", ")}.`);
  tell([...parts, ...found.warnings].join(" "));
}

/** The answer's JSON; null after a failure, which is shown. */
async function call(method, path, body) {
  if (busy) return null;
  busy = true;
  try {
    const reply = await fetch(at(path), {
      method,
      headers: { ...authorised(), ...(body && { "Content-Type": "application/json" }) },
      body: body && JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(10_000),
    });
    if (reply.ok) return await reply.json();
    await failed(reply);
  } catch (error) {
    tell(`Nothing is known to have changed: ${reason(error)}.`, true);
  } finally {
    busy = false;
  }
  return null;
}

async function failed(reply) {
  const message = (await reply.json().catch(() => null))?.error?.message ?? `HTTP status ${reply.status}`;
  if (reply.status !== 401) return tell(`Nothing changed: ${message}.`, true);
  keep("", { wrong: true });
  return tell("Nothing changed: the gate does not take this token. Type it again.", true);
}

function reason(error) {
  if (error.name === "TimeoutError") return "the gate did not answer within 10 s";
  return "the gate cannot be reached";
}

function confirmed(words, yes) {
  const dialog = byId("confirm");
  byId("confirm-words").textContent = words;
  byId("confirm-yes").textContent = yes;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    byId("confirm-yes").onclick = () => dialog.close("yes");
    byId("confirm-no").onclick = () => dialog.close("");
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}

function tell(words, isError = false) {
  const node = byId("control-outcome");
  node.dataset.error = isError;
  node.textContent = words;
}

/** `wrong`: the gate did not take the token. */
function lock({ wrong = false } = {}) {
  byId("controls-words").textContent = changeable ? (hasToken() ? OPEN : LOCKED) : OFF;
  byId("token-form").hidden = !changeable;
  byId("token-forget").hidden = !hasToken();
  byId("changing").disabled = !changeable || !hasToken();
  if (!wrong) return byId("token").removeAttribute("aria-invalid");
  byId("token").setAttribute("aria-invalid", "true");
  byId("token").focus();
  return tell("The gate does not take this token. Type it again.", true);
}

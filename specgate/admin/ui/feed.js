// News of the gate: its event stream, what is asked for besides, and how old the last word is.

import { listen } from "./stream.js";
import { asksReaders, keep, mayRead, onToken, readingHeaders } from "./token.js";

const LATE_S = 3.5; // a state comes every second
const DEAD_S = 10; // a connection that says nothing for so long is given up
const AGAIN_S = 3;
const AWAY_S = 60; // a tab that nobody looks at frees its place among the listeners

/** Of this gate, wherever a proxy in front has put it. */
export const at = (path) => new URL(path, document.baseURI);

export async function read(path) {
  const reply = await fetch(at(path), {
    headers: readingHeaders(),
    cache: "no-store",
    signal: AbortSignal.timeout(10_000),
  });
  if (reply.ok) return reply.json();
  if (reply.status === 401) rejected();
  throw new Error(`${path}: HTTP status ${reply.status}`);
}

/** Several calls may be refused for the one token. */
function rejected() {
  if (mayRead()) keep("", { wrong: true });
}

/**
 * Tells `state` and `switched` what comes, `joined` whenever the stream begins anew, and `aged` twice
 * a second how it stands: "live", "polled" (there is no room on the stream), "lost", or "locked" (the
 * token is missing), with the seconds since the last state.
 */
export function follow({ state, switched, joined, aged }) {
  let stream = null;
  let last = null; // of performance.now(), when the last state came
  let opened = performance.now();
  let polled = false;
  let retry = 0;

  function open() {
    close();
    opened = performance.now();
    if (!mayRead()) {
      last = null;
      look();
      return;
    }
    stream = listen(at("events"), {
      headers: readingHeaders,
      opened() {
        polled = false;
        joined();
      },
      told(name, data) {
        if (name === "state") heard(JSON.parse(data));
        else if (name === "switch") switched(JSON.parse(data));
      },
      refused,
    });
  }

  function close() {
    clearTimeout(retry);
    stream?.close();
    stream = null;
  }

  function heard(status) {
    last = performance.now();
    state(status);
    look();
  }

  async function refused(answered) {
    if (answered === 401) return rejected();
    close();
    retry = setTimeout(open, AGAIN_S * 1000);
    try {
      const status = await read("status");
      polled = true;
      heard(status);
    } catch {
      polled = false; // its age says it
    }
  }

  function look() {
    const now = performance.now();
    const age = last === null ? null : (now - last) / 1000;
    if (stream && now - Math.max(last ?? 0, opened) > DEAD_S * 1000) open();
    const late = age === null ? now - opened > LATE_S * 1000 : age > (polled ? 2 * AGAIN_S : LATE_S);
    const how = late ? "lost" : age === null ? "connecting" : polled ? "polled" : "live";
    aged(mayRead() ? how : "locked", age);
  }

  let leaving = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(close, AWAY_S * 1000);
    else if (!stream) open();
  });
  onToken(() => {
    if (asksReaders) open();
  });

  open();
  setInterval(look, 500);
}

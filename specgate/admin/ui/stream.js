// An event stream by fetch: an EventSource that can send a header. After a break it connects again, as
// often as it takes; after a refusal it does not.

const RETRY_MS = 3000; // until the stream says another

/**
 * `headers`: what to send with each connection. Calls `opened`, `told` with the name and data of each
 * event, and `refused` with the status of an answer that is no event stream.
 */
export function listen(url, { headers, opened, told, refused }) {
  const leaving = new AbortController();
  let retry = RETRY_MS;
  let again = 0;

  async function connect() {
    try {
      const reply = await fetch(url, {
        headers: { Accept: "text/event-stream", ...headers() },
        cache: "no-store",
        credentials: "omit",
        signal: leaving.signal,
      });
      if (leaving.signal.aborted) return;
      if (!reply.ok || !reply.headers.get("content-type")?.startsWith("text/event-stream")) {
        reply.body?.cancel().catch(() => {});
        return refused(reply.status);
      }
      opened();
      await eachEvent(reply.body);
    } catch {
      // It broke off, or nobody answers.
    }
    if (!leaving.signal.aborted) again = setTimeout(connect, retry);
  }

  async function eachEvent(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let event = { name: "message", data: [] };
    for (;;) {
      const { value, done } = await reader.read();
      if (done || leaving.signal.aborted) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
        if (line) {
          field(event, line);
          continue;
        }
        if (event.data.length) told(event.name, event.data.join("\n"));
        event = { name: "message", data: [] };
      }
    }
  }

  function field(event, line) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "event") event.name = value;
    else if (name === "data") event.data.push(value);
    else if (name === "retry" && /^\d+$/.test(value)) retry = Number(value);
  }

  connect();
  return {
    close() {
      clearTimeout(again);
      leaving.abort();
    },
  };
}

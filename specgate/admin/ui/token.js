// The gate's admin token. The reader types it; it is kept in this tab's session storage, or in memory
// alone where there is none, and sent as a header and no other way.

const KEPT = "specgate-admin-token";

/** Whether the gate asks for the token before it tells anything (SPECGATE_CONTROL_READ). */
export const asksReaders = document.documentElement.dataset.reading === "token";

let token = stored();
const listeners = [];

export const hasToken = () => token !== "";

export const mayRead = () => !asksReaders || hasToken();

export const authorised = () => ({ Authorization: `Bearer ${token}` });

/** Of a call that only reads: the token stays here where nobody asks for it. */
export const readingHeaders = () => (asksReaders ? authorised() : {});

/** What a header can carry, as a gate's token is made of. */
export const isToken = (typed) => /^[!-~]+$/.test(typed);

/** Take another token, or none (""). `wrong`: the gate did not take the one before. */
export function keep(typed, { wrong = false } = {}) {
  token = typed;
  try {
    if (typed) sessionStorage.setItem(KEPT, typed);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Memory alone.
  }
  for (const act of listeners) act({ wrong });
}

/** `act` is called whenever the token becomes another. */
export function onToken(act) {
  listeners.push(act);
}

function stored() {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

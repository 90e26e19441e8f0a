// Answers wait in localStorage, by person, until the server has kept them: only its 2xx with the answer's id empties a slot.
const state = document.getElementById("state"), memory = {};
const meta = (name, page = document) => page.querySelector(`meta[name=accord-${name}]`)?.content;
const prefix = `accord ${meta("person")} `;
export const refusals = {}; // of slots that were refused: why
let token = meta("form"), last = 0, wait, timer, isBusy, isOut, isFailing;

export const recall = (name) => { try { return JSON.parse(localStorage.getItem(name)); } catch { return null; } };
export function keep(name, value) {
  try { value === undefined ? localStorage.removeItem(name) : localStorage.setItem(name, JSON.stringify(value)); } catch { /* the page has it */ }
}
const newId = () => crypto.getRandomValues(new Uint32Array(4)).join("-").padStart(20, "0");
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

/** What the server has not kept yet, as [key, answer], in order. */
export function slots() {
  const found = { ...memory };
  try { for (const key of Object.keys(localStorage)) if (key.startsWith(prefix)) found[key] = recall(key); } catch { /* none */ }
  return Object.keys(found).filter((key) => found[key]?.id).sort().map((key) => [key, found[key]]);
}
const waiting = () => slots().filter(([key]) => !refusals[key]);

export function put(answer) {
  last = Math.max(last + 1, Date.now());
  const id = newId(), key = `${prefix}${last} ${id}`;
  keep(key, memory[key] = { ...answer, id, seconds: lap() });
  drain();
}

export function discard(key) {
  delete memory[key];
  delete refusals[key];
  keep(key);
  show();
}

/** Send as a form of this page: the status, or 0, and what was said. */
export async function post(path, body, again = true) {
  try {
    const headers = { "Content-Type": "application/json", "X-Accord-Form": token };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(30000) });
    isOut = [401, 403].includes(answer.status);
    if (isOut && again) { // signed in again in another tab? then go on with that session's token
      const page = new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html");
      if (prefix === `accord ${meta("person", page)} `) {
        token = meta("form", page);
        return post(path, body, false);
      }
    }
    return [answer.status, (await answer.json().catch(() => 0)) || {}];
  } catch { return [0, {}]; }
}

/** Whether the same would be refused again: it is not sent before the page is loaded anew. */
export const isRefusal = (status) => [400, 404, 409, 413, 415, 422].includes(status);

export function show(other) {
  const count = waiting().length, refused = Object.keys(refusals).length;
  state.textContent = isOut && (count || other) ? "signed out: your answers are kept here"
    : count && isFailing ? `${count} not sent yet` : count ? "saving" : other ?? (refused ? `${refused} refused and kept here` : last ? "saved" : "");
}

export async function drain() {
  if (isBusy || !token) return;
  isBusy = true;
  clearTimeout(timer);
  for (let next; (next = waiting()[0]);) {
    const [key, answer] = next;
    last ||= 1;
    show();
    const [status, said] = await post("/answers", answer);
    isFailing = false;
    if (status > 199 && status < 300 && said.id === answer.id) {
      discard(key);
      for (const [old, row] of slots()) { // answered again, and rightly
        if (refusals[old] && ["assignment", "question", "turn"].every((name) => row[name] === answer[name])) discard(old);
      }
      wait = 500;
      tell("kept", answer);
    } else if (isRefusal(status)) {
      refusals[key] = said.error ?? status;
      tell("refused", key);
    } else {
      isFailing = true;
      timer = setTimeout(drain, wait = Math.min(wait * 2 || 1000, 15000));
      break;
    }
  }
  isBusy = false;
  show();
  tell("settled");
}

// Seconds for which the page was seen and had the focus, since they were last asked for.
let seen = 0, since = 0, isSeen;
function tick() {
  const now = performance.now();
  if (isSeen) seen += now - since;
  [since, isSeen] = [now, !document.hidden && document.hasFocus()];
}
function lap() {
  tick();
  const seconds = seen / 1000;
  seen = 0;
  return seconds;
}
for (const each of ["focus", "blur", "visibilitychange"]) addEventListener(each, tick);
for (const each of ["online", "focus"]) addEventListener(each, drain); // hints; only an answer tells
addEventListener("beforeunload", (event) => { if (slots().length) event.preventDefault(); });
tick();
setTimeout(drain); // when whoever listens is there

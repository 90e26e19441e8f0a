// Unsent answers in localStorage; one is removed after the server confirms its id.
const state = document.getElementById("state") ?? document.createElement("span"), memory = {};
const meta = (name, page = document) => page.querySelector(`meta[name=accord-${name}]`)?.content;
const prefix = `accord ${meta("person")} `;
export const refusals = {}; // reasons of refused answers, by slot
let token = meta("form"), last = 0, wait = 500, most = 50, timer, isBusy, isOut, isFailing, form;

export const recall = (name) => { try { return JSON.parse(localStorage.getItem(name)); } catch { return null; } };
export function keep(name, value) {
  try { value === undefined ? localStorage.removeItem(name) : localStorage.setItem(name, JSON.stringify(value)); } catch { /* no storage */ }
}
const newId = () => crypto.getRandomValues(new Uint32Array(4)).join("-").padStart(20, "0");
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

/** Return unconfirmed answers, as [key, answer]. */
export function slots() {
  const found = { ...memory };
  try { for (const key of Object.keys(localStorage)) if (key.startsWith(prefix)) found[key] = recall(key); } catch { /* no storage */ }
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

/** Send a request; return its status (0 without connection) and body. */
async function post(path, body, again = true) {
  try {
    const headers = { "Content-Type": "application/json", "X-Accord-Form": token };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(30000) });
    isOut = [401, 403].includes(answer.status);
    if (isOut && again) { // after a new sign-in in another tab, use that session's token
      const page = new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html");
      if (prefix === `accord ${meta("person", page)} `) {
        token = meta("form", page);
        return post(path, body, false);
      }
    }
    return [answer.status, (await answer.json().catch(() => 0)) || {}];
  } catch { return [0, {}]; }
}

/** Return true if a retry would be refused again. */
const isRefusal = (status) => [400, 404, 409, 413, 415, 422].includes(status);

export function show() {
  const count = waiting().length, refused = Object.keys(refusals).length;
  const text = isOut && (count || form) ? "signed out: your answers are saved in this browser"
    : count ? (isFailing ? `${count} not sent yet` : "saving") : form && isFailing ? "all answers saved; waiting for the server"
      : refused ? `${refused} refused and saved in this browser` : last ? "saved" : "";
  state.textContent = text;
  state.className = `badge ${text === "saved" ? "good" : text && "warn"}`;
}

/** Send a form after all answers; return its response, or `{}` if a refused answer stops it (`isHeld`). */
export const submit = (path, body, isHeld) => new Promise((done) => {
  form = { path, body, isHeld, done };
  drain();
});

const close = (reply) => { form.done(reply); form = undefined; return true; };

/** Return the first unconfirmed answers, as many as one request may hold. */
function batch() {
  let size = 0;
  return waiting().slice(0, most).filter(([, answer], place) => (size += 3 * JSON.stringify(answer).length) < 200000 || !place);
}

async function sendAnswers(rows) {
  last ||= 1;
  const [status, reply] = await post("/answers", { answers: rows.map(([, answer]) => answer) });
  const replies = status === 200 && Array.isArray(reply.answers) ? new Map(reply.answers.map((each) => [each?.id, each])) : new Map();
  let isDone = true;
  if (isRefusal(status) && rows.length > 1) { most = 1; return true; } // one of them makes the request unreadable: send each alone
  for (const [key, answer] of rows) {
    const own = replies.get(answer.id) ?? (isRefusal(status) ? { error: reply.error ?? status, status } : { status: 0 });
    if (own.id === answer.id && !own.error) confirm(key, answer);
    else if (isRefusal(own.status)) {
      refusals[key] = own.error ?? own.status;
      tell("refused", key);
    } else isDone = false;
  }
  return isDone;
}

function confirm(key, answer) {
  discard(key);
  for (const [old, row] of slots()) { // a later answer to the same question was accepted
    if (refusals[old] && ["assignment", "question", "turn"].every((name) => row[name] === answer[name])) discard(old);
  }
  tell("saved", answer);
}

async function sendForm() {
  const [status, reply] = await post(form.path, form.body);
  return (reply.next || isRefusal(status)) && close(reply);
}

/** Send what waits; after a failure, only a timer or hint does. */
async function drain(hint) {
  if (isBusy || !token || (timer && !hint)) return show();
  isBusy = true;
  timer = clearTimeout(timer);
  await null; // answers that are put at the same time go in one request
  for (let rows; (rows = batch()).length || form;) {
    if (form?.isHeld()) { close({}); continue; }
    show();
    isFailing = !await (rows.length ? sendAnswers(rows) : sendForm());
    if (isFailing) { timer = setTimeout(drain, wait = Math.min(wait * 2, 15000), true); break; }
    wait = 500;
  }
  isBusy = false;
  most = 50;
  show();
}

// Seconds for which the page was visible and focused since the last call.
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
for (const each of ["online", "focus"]) addEventListener(each, drain); // hints; only a response shows that the server is reachable
addEventListener("beforeunload", (event) => { if (slots().length) event.preventDefault(); });
tick();
setTimeout(drain); // after the other scripts have added their listeners

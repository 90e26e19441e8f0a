// Chat page: send messages without a page load, stream replies, and keep drafts.
// The server's page is the only source of the state: after each step the script inserts the part that the server renders.
const state = document.getElementById("state");
const key = `accord-draft:${location.pathname}`;
let source = null, isSending = false;

const root = () => document.getElementById("talk");
const tell = (text) => { state.textContent = text; };

function draft(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(key) ?? "";
    if (text) sessionStorage.setItem(key, text); else sessionStorage.removeItem(key);
  } catch { /* no storage: drafts are not kept */ }
  return "";
}

function show(html, address) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const fresh = page.getElementById("talk");
  if (!fresh || (address && new URL(address).pathname !== location.pathname)) {
    location.assign(address || location.href);
    return;
  }
  root().replaceWith(document.importNode(fresh, true));
  begin();
}

async function refresh(text = "") {
  try {
    const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
    if (answer.ok) { tell(text); show(await answer.text(), answer.url); return; }
    tell("signed out: your text is saved in this browser");
  } catch {
    tell("no connection; trying again");
    setTimeout(refresh, 2000, text);
  }
}

async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  fields.set("wait", "no");
  const isMessage = fields.get("do") === "say";
  if (isSending || (isMessage && !fields.get("text").trim())) return;
  isSending = true;
  for (const each of root().querySelectorAll("button")) each.disabled = true;
  tell("sending");
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields });
    if (answer.ok || answer.status === 409 || answer.status === 422) {
      if (isMessage && answer.ok) draft("");
      tell("");
      show(await answer.text(), answer.url);
      return;
    }
    tell(answer.status === 401 ? "signed out: your text is saved in this browser" : "not sent: your text is saved in this browser");
  } catch {
    tell("no connection: not sent, your text is saved in this browser");
  }
  isSending = false;
  for (const each of root().querySelectorAll("button")) each.disabled = false;
}

function listen(address) {
  const last = [...root().querySelectorAll(".msg.assistant > .text")].at(-1);
  source = new EventSource(address);
  source.addEventListener("all", (event) => { last.textContent = JSON.parse(event.data); });
  source.addEventListener("more", (event) => {
    const low = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
    last.textContent += JSON.parse(event.data);
    if (low) scrollTo(0, document.documentElement.scrollHeight);
  });
  source.addEventListener("end", () => { source.close(); refresh("the assistant has answered"); });
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) setTimeout(refresh, 2000); });
}

function begin() {
  const here = root();
  isSending = false;
  source?.close();
  for (const each of here.querySelectorAll(".scripted")) each.hidden = false;
  for (const form of here.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => { event.preventDefault(); send(form, event.submitter); });
  }
  const box = document.getElementById("text");
  if (box) {
    box.value ||= draft();
    box.addEventListener("input", () => draft(box.value));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.repeat || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      box.form.requestSubmit();
    });
  }
  const reload = document.getElementById("reload");
  if (reload) reload.hidden = true;
  if (here.dataset.stream) listen(here.dataset.stream);
  else if (here.dataset.writing) setTimeout(refresh, 2000);
  (document.getElementById("problem") ?? box ?? document.getElementById("stop"))?.focus();
}

begin();

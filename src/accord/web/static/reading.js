// Conversation page: keyboard shortcuts, and predictions that were not ready when the page was loaded.
import { keep, recall } from "./outbox.js";

const sheet = document.getElementById("keys"), isOn = document.getElementById("keys-on");
const seen = new Map(); // current element, by selector
const top = () => 8;

function step(kind, by) {
  const all = [...document.querySelectorAll(kind)], from = all.indexOf(seen.get(kind));
  const near = all.findIndex((each) => each.getBoundingClientRect().top > top() + 4);
  const at = from >= 0 ? from + by : by > 0 ? near : (near < 0 ? all.length : near) - 1;
  const next = all[Math.min(Math.max(at, 0), all.length - 1)];
  if (!next) return;
  for (let fold = next.closest("details:not([open])"); fold; fold = next.closest("details:not([open])")) fold.open = true;
  seen.set(kind, next);
  if (kind === ".turn") seen.delete("mark, .findings p, .marked");
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: kind === ".turn" ? "start" : "center" });
}

const moves = {
  j: () => step(".turn", 1),
  k: () => step(".turn", -1),
  n: () => step("mark, .findings p, .marked", 1),
  p: () => step("mark, .findings p, .marked", -1),
  u: () => document.querySelector("[rel=up]")?.click(),
  o: () => document.getElementById("all").click(),
  "?": () => sheet.togglePopover(),
};
document.body.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input:not([type=checkbox]), textarea, select")) return;
  if (!Object.hasOwn(moves, key) || (key !== "?" && (sheet.matches(":popover-open") || !isOn.checked))) return;
  event.preventDefault();
  moves[key]();
});
for (const kind of [".turn"]) seen.set(kind, document.querySelector(".turn.is-rated, .turn:target"));
document.querySelector("[data-key='?']").hidden = false;
isOn.checked = recall("keys") ?? true;
isOn.onchange = () => keep("keys", isOn.checked);
if (location.hash) addEventListener("load", () => document.getElementById(location.hash.slice(1))?.scrollIntoView());

async function later() { // reload until the server has the predictions, then insert them
  const page = await fetch(location.href).then((answer) => answer.text()).catch(() => "");
  const found = new DOMParser().parseFromString(page, "text/html");
  if (!found.querySelector("main") || found.getElementById("waiting")) return setTimeout(later, 1500);
  for (const old of document.querySelectorAll(".content, .about")) {
    const place = old.closest(".turn")?.id, fresh = place ? found.getElementById(place)?.querySelector(".known") : found.querySelector(".about");
    const known = place ? old.querySelector(".known") : old;
    if (!fresh) continue;
    if (known?.open) fresh.open = true;
    known ? known.replaceWith(fresh) : old.append(fresh);
  }
}
if (document.getElementById("waiting")) setTimeout(later, 500);

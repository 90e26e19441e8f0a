// Shortcuts of the rating page: elements declare keys (data-key).
import { keep, recall } from "./outbox.js";

const form = document.getElementById("questions"), sheet = document.getElementById("keys"), isOn = document.getElementById("keys-on");
const questions = () => [...form.querySelectorAll("fieldset:enabled")];
const chosen = (set) => set.querySelector("[type=radio]:checked"), changed = []; // pairs of a question and its earlier choice
const isUnanswered = (set) => !set.querySelector(":checked:not([data-key=b])") && !set.querySelector("[type=number]")?.value;
const isPhone = matchMedia("(max-width: 40rem)"); // shows one question at a time
const onward = document.getElementById("onward"), save = form.querySelector("[value=finish]");
let current;

/** Show the button of the phone: the next question, or the item's save at the last one and when all are answered. */
function offer() {
  const all = questions();
  onward.hidden = !isPhone.matches || current === all.at(-1) || !all.some(isUnanswered);
  save.hidden = !onward.hidden;
  const text = current.querySelector(".wording"), button = current.querySelector("[data-whole]");
  if (text && !current.classList.contains("whole")) button.hidden = text.scrollHeight <= text.clientHeight + 1;
}

function at(set, isFocused = true) {
  if (!set) return;
  current?.classList.remove("current");
  current = set;
  set.classList.add("current");
  document.getElementById("asked").textContent = `Question ${questions().indexOf(set) + 1} of ${questions().length}`;
  offer();
  if (isFocused) (chosen(set) ?? set.querySelector("input:not([type=hidden])")).focus();
}

function advance() { // to the next unanswered question, else to the first one, else to the following question
  const all = questions(), place = all.indexOf(current);
  at([...all.slice(place + 1), ...all.slice(0, place)].find(isUnanswered) ?? all[place + 1]);
}

function press(key) {
  const own = `[data-key="${CSS.escape(key)}"]`, number = /\d/.test(key) && current?.querySelector("[type=number]");
  const found = current?.querySelector(own) ?? document.querySelector(`${own}:not(fieldset *)`);
  if (!found) return number?.focus?.();
  found.click();
  if (!found.popoverTargetElement) (found.parentElement.open && found.parentElement.querySelector("textarea, [type=text]") || found).focus();
  if (found.checked && key !== "b" && found.closest("fieldset")) advance();
  return true;
}

const step = (by) => { const all = questions(); at(all[all.indexOf(current) + by]); };
const moves = {
  j: () => step(1),
  k: () => step(-1),
  u: () => {
    const [set, before] = changed.pop() ?? [];
    if (!set) return (document.querySelector("#undo button") ?? document.querySelector("[rel=prev]"))?.click();
    if (before) {
      before.click();
      changed.pop();
    }
    at(set);
  },
};

document.body.addEventListener("keydown", (event) => {
  const { key, target } = event, isHeld = event.ctrlKey || event.metaKey || event.altKey, isTyping = target.matches("textarea, [type=text]");
  if (key === "Escape" && isTyping) at(target.closest("fieldset") ?? current);
  if (key === "Enter" && !event.isComposing && (isHeld || !target.closest("a, button, summary, textarea, [type=text]"))) {
    event.preventDefault();
    if (event.repeat) return;
    if (target.type === "number" && target.value && questions().some(isUnanswered)) advance();
    else form.requestSubmit(save);
  }
  if (isTyping || isHeld || key.length > 1 || (target.type === "number" && /[\d.,e+-]/.test(key))) return;
  if (key !== "?" && (sheet.matches(":popover-open") || !isOn.checked)) return;
  if (moves[key] ? !moves[key]() : press(key)) event.preventDefault();
});
let isPressed; // a question that unfolds under a pressed mouse would move away from its click
form.addEventListener("pointerdown", () => isPressed = true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(() => isPressed = false));
for (const name of ["focusin", "click"]) {
  form.addEventListener(name, ({ type, target }) => (type === "click" || !isPressed) && at(target.closest("fieldset") ?? current, false));
}
form.addEventListener("open", ({ target }) => at(target));
form.addEventListener("change", ({ target }) => {
  const set = target.closest("fieldset");
  document.getElementById("undo")?.setAttribute("hidden", "");
  offer();
  if (target.type !== "radio") return;
  changed.push([set, set.before]);
  set.before = target;
  if (isPhone.matches && !("ends" in target.dataset)) advance();
});
form.addEventListener("click", ({ target }) => { // unfold the wording, which a phone cuts
  if (!("whole" in target.dataset)) return;
  const isWhole = current.classList.toggle("whole");
  target.ariaExpanded = String(isWhole);
  target.firstChild.data = isWhole ? "Less" : "More";
});
isPhone.onchange = offer;
for (const [id, key] of [["before", "k"], ["after", "j"], ["onward", "j"], ["back", "u"]]) document.getElementById(id).onclick = () => moves[key]();
for (const set of questions()) set.before = chosen(set);
form.parentElement.classList.add("is-live");
document.querySelector("#undo button")?.setAttribute("hidden", ""); // the button beside "Save" does the same
document.querySelector("[data-key='?']").hidden = false;
isOn.checked = recall("keys") ?? true;
isOn.onchange = () => keep("keys", isOn.checked);
at(questions().find((set) => !chosen(set)) ?? questions()[0], false);

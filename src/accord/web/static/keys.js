// Shortcuts of the rating page: elements declare keys (data-key). "Save" is off until all questions are answered.
import { keep, recall } from "./outbox.js";

const form = document.getElementById("questions"), sheet = document.getElementById("keys"), isOn = document.getElementById("keys-on");
const questions = () => [...form.querySelectorAll("fieldset:enabled")];
const chosen = (set) => set.querySelector("[type=radio]:checked"), changed = []; // pairs of a question and its earlier choice
const isUnanswered = (set) => {
  const number = set.querySelector("[type=number]");
  return !set.querySelector(":checked:not([data-key=b])") && !(number?.value && number.checkValidity());
};
const isPhone = matchMedia("(max-width: 60rem)"); // shows one question at a time
const onward = document.getElementById("onward"), save = form.querySelector("[value=finish]"), comment = document.getElementById("comment");
let current;

/** Switch "Save" on or off; a phone shows the next question in its place until all are answered. */
function offer() {
  const all = questions(), open = all.filter(isUnanswered).length;
  save.disabled = open > 0;
  document.getElementById("answered").textContent = `${all.length - open} of ${all.length}`;
  onward.hidden = !isPhone.matches || !save.disabled;
  save.hidden = !onward.hidden;
  onward.disabled = isUnanswered(current);
}

function at(set, isFocused = true) {
  if (!set) return;
  current?.classList.remove("is-current");
  current = set;
  set.classList.add("is-current");
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
  if (found.matches("summary")) found.parentElement.hidden = false;
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
    else form.requestSubmit();
  }
  if (isTyping || isHeld || key.length > 1 || (target.type === "number" && /[\d.,e+-]/.test(key))) return;
  if (key !== "?" && (sheet.matches(":popover-open") || !isOn.checked)) return;
  if (moves[key] ? !moves[key]() : press(key)) event.preventDefault();
});
for (const name of ["focusin", "click"]) form.addEventListener(name, ({ target }) => at(target.closest("fieldset") ?? current, false));
form.addEventListener("open", ({ target }) => at(target));
form.addEventListener("input", offer);
form.addEventListener("change", ({ target }) => {
  const set = target.closest("fieldset");
  document.getElementById("undo")?.setAttribute("hidden", "");
  offer();
  if (target.type !== "radio") return;
  changed.push([set, set.before]);
  set.before = target;
  if (isPhone.matches && !("ends" in target.dataset)) advance();
});
isPhone.onchange = offer;
for (const [id, key] of [["before", "k"], ["after", "j"], ["back", "u"]]) document.getElementById(id).onclick = () => moves[key]();
onward.onclick = advance;
if (comment) comment.onclick = () => press("c");
for (const fold of form.querySelectorAll(".comment")) { // the button beside "Save" opens that of the current question
  fold.hidden = !fold.open;
  fold.ontoggle = () => { fold.hidden = !fold.open; };
}
for (const each of [document.getElementById("back"), comment, document.querySelector("[data-key='?']")]) if (each) each.hidden = false;
for (const set of questions()) set.before = chosen(set);
document.querySelector("#undo button")?.setAttribute("hidden", ""); // the button beside "Save" does the same
isOn.checked = recall("keys") ?? true;
isOn.onchange = () => keep("keys", isOn.checked);
at(questions().find(isUnanswered) ?? questions()[0], false);

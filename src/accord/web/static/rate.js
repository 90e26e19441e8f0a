// Rating page: each answer is queued at once; the next page opens after the server has saved all of them.
import { discard, keep, put, recall, refusals, show, slots, submit } from "./outbox.js";

const form = document.getElementById("questions"), { study, assignment, stage } = form.dataset, questions = [...form.querySelectorAll("fieldset")];
const own = (row) => row.assignment === assignment && row.stage === stage && questions.find((set) => set.name === row.question);
const commentOf = (set) => set.querySelector("textarea") ?? {}, draft = (set) => `draft ${assignment} ${stage} ${set.name}`;
let isGoing;

function valueOf(set) { // null: does not apply; undefined: not answered
  const chosen = set.querySelector(":checked:not([data-key=b])"), number = set.querySelector("[type=number]");
  return chosen ? (chosen.dataset.key === "n" ? null : chosen.value) : (number?.checkValidity() && number.value) || undefined;
}
const answer = (set) => JSON.stringify([valueOf(set), commentOf(set).value]);

function wrong(within, text) {
  const place = within.querySelector(within === form ? "#error" : ".wrong");
  place.textContent = text;
  place.hidden = !text;
}

function save(set) {
  const value = valueOf(set);
  wrong(set, set.querySelector("[type=number]")?.validationMessage);
  if (value === undefined || answer(set) === set.saved) return;
  set.saved = answer(set);
  put({ study, assignment, stage, question: set.name, value, comment: commentOf(set).value });
  keep(draft(set));
}

function screen() { // hide the questions after an answer that ends the questionnaire
  let isOver = false;
  for (const set of questions) {
    set.hidden = set.disabled = isOver;
    isOver ||= set.querySelector("[data-ends]:checked");
  }
  document.getElementById("ended").hidden = !isOver;
}

async function go(body) {
  if (isGoing) return show();
  isGoing = true;
  wrong(form);
  const isHeld = () => slots().some(([key, row]) => row.assignment === assignment && refusals[key]);
  const { next, error } = await submit(form.action, body, isHeld);
  if (next) return location.assign(next);
  wrong(form, error);
  isGoing = false;
}

document.addEventListener("refused", ({ detail: key }) => {
  const [, row] = slots().find(([each]) => each === key), note = document.getElementById("refused"), set = own(row);
  const item = note.content.cloneNode(true).firstChild;
  if (set) wrong(set, refusals[key]);
  item.firstChild.textContent = [refusals[key], row.question, row.value, row.quote, row.comment].join("; ");
  item.lastChild.onclick = () => {
    discard(key);
    item.remove();
  };
  note.after(item);
});

for (const set of questions) set.saved = answer(set);
for (const [, row] of slots()) { // answers from before the page was loaded that are not saved yet
  const set = own(row);
  if (!set) continue;
  for (const each of set.querySelectorAll("input:not([type=hidden], [data-key=b])")) {
    if (each.type === "number") each.value = row.value ?? "";
    else each.checked = each.dataset.key === "n" ? row.value === null : each.value === row.value;
  }
  commentOf(set).value = row.comment;
  set.saved = answer(set);
}
for (const set of questions) {
  const text = recall(draft(set));
  if (!text) continue;
  commentOf(set).value = text;
  commentOf(set).parentElement.open = true;
}
form.oninput = ({ target }) => {
  const set = target.closest("fieldset");
  if (target.type === "textarea") keep(draft(set), target.value);
  if (target.type === "number") set.querySelector("[data-key=n]").checked = false;
};
form.onchange = ({ target }) => {
  const set = target.closest("fieldset");
  if (target.dataset.key === "b") {
    if (valueOf(set) === undefined) set.querySelector("[data-tie]")?.click();
    put({ study, assignment, stage, question: `${set.name}:both-bad`, value: +target.checked });
  }
  save(set);
  screen();
};
form.onsubmit = (event) => {
  event.preventDefault();
  questions.forEach(save);
  const open = questions.filter((set) => !set.disabled && valueOf(set) === undefined);
  for (const set of open) wrong(set, "Not answered yet.");
  open.length ? open[0].dispatchEvent(new Event("open", { bubbles: true })) : go({ do: "finish", stage });
};
document.getElementById("skip")?.addEventListener("submit", (event) => {
  event.preventDefault();
  go({ do: "skip", reason: event.target.reason.value });
});
screen();

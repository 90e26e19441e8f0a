// Keys of a disputed item: digits choose an answer, letters a reason, j and k move between questions, Enter saves.
const form = document.getElementById("settle"), questions = [...form.querySelectorAll("fieldset")];
let current;

function at(question, isFocused = true) {
  if (!question) return;
  current?.classList.remove("is-current");
  current = question;
  current.classList.add("is-current");
  if (isFocused) (current.querySelector(":checked") ?? current.querySelector("[type=radio], [type=text]"))?.focus();
}
const isOpen = (question) => !question.querySelector(":checked");
const step = (by) => at(questions[questions.indexOf(current) + by]);
const moves = { j: () => step(1), k: () => step(-1) };

document.body.addEventListener("keydown", (event) => {
  const { key, target } = event, isHeld = event.ctrlKey || event.metaKey || event.altKey, isTyping = target.matches("textarea, [type=text]");
  if (key === "Escape" && isTyping) at(current);
  if (key === "Enter" && !event.isComposing && (isHeld || !target.closest("a, button, summary, textarea"))) {
    event.preventDefault();
    if (!event.repeat) form.requestSubmit(form.querySelector(".primary"));
  }
  if (isTyping || isHeld || event.defaultPrevented) return;
  if (moves[key]) {
    moves[key]();
    return event.preventDefault();
  }
  if (key.length > 1) return;
  const own = `[data-key="${CSS.escape(key)}"]`, found = current?.querySelector(own) ?? document.querySelector(`${own}:not(fieldset *)`);
  if (!found) return;
  event.preventDefault();
  found.click();
  if (found.closest("fieldset")) at(questions.slice(questions.indexOf(current) + 1).find(isOpen) ?? current);
});
form.addEventListener("focusin", ({ target }) => at(target.closest("fieldset") ?? current, false));
at(questions.find(isOpen) ?? questions[0], false);

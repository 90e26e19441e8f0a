// Marks of issues: text selected in a turn fills its form, the annotator chooses a kind, and the mark is queued.
import { put } from "./outbox.js";

const { study, assignment, stage } = document.getElementById("questions").dataset;
let timer;

function before(text, node, offset) { // number of code points; an escaped control character counts as one
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEnd(node, offset);
  const part = range.cloneContents(), signs = part.querySelectorAll(".sign");
  for (const sign of signs) sign.remove();
  return signs.length + [...part.textContent].length;
}

function selected() {
  const selection = getSelection(), range = selection.rangeCount ? selection.getRangeAt(0) : null;
  const turn = range && range.startContainer.parentElement?.closest("[data-turn]"), text = turn?.querySelector(".text");
  if (!text?.contains(range.startContainer) || !`${range}`.trim()) return;
  if (!text.contains(range.endContainer)) range.setEnd(text, text.childNodes.length);
  const marker = turn.querySelector(".marker"), { quote } = marker.querySelector("form").elements;
  marker.open = true;
  quote.value = `${range}`;
  quote.span = [before(text, range.startContainer, range.startOffset), before(text, range.endContainer, range.endOffset)];
}
document.addEventListener("selectionchange", () => {
  clearTimeout(timer);
  timer = setTimeout(selected, 200);
});
document.addEventListener("input", ({ target }) => { delete target.span; });

document.addEventListener("submit", (event) => {
  const form = event.target, { turn, kind, quote, comment, replaces } = form.elements;
  if (form.dataset.mark === undefined) return;
  event.preventDefault();
  put({
    study, assignment, stage, question: `issue:${event.submitter.value || kind.value}`, value: replaces ? null : 1, turn: +turn.value,
    replaces: replaces?.value, comment: comment?.value, quote: quote?.value, span: quote?.span,
  });
  getSelection().removeAllRanges(); // else the form opens again
  clearTimeout(timer);
  form.reset();
  form.parentElement.open = false;
});

document.addEventListener("saved", async ({ detail: row }) => { // show saved marks as the server renders them
  if (row.assignment !== assignment || row.turn === undefined) return;
  const page = await fetch(location.pathname).then((answer) => answer.text()).catch(() => "");
  const found = new DOMParser().parseFromString(page, "text/html");
  for (const turn of document.querySelectorAll(".msg:not(:has(.marker[open]))")) turn.replaceWith(found.getElementById(turn.id) ?? turn);
});

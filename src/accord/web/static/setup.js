// Pages for leads: progress of an upload and of its import, and buttons that copy a text.
const form = document.getElementById("upload");
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const wrong = form.querySelector(".wrong"), sent = document.getElementById("sent"), button = form.querySelector("button");
  const request = new XMLHttpRequest(), bar = sent.querySelector("progress");
  const fail = (reason) => {
    wrong.textContent = reason;
    wrong.hidden = false;
    sent.hidden = true;
    button.disabled = false;
  };
  request.upload.onprogress = ({ loaded, total }) => { bar.value = total ? loaded / total : 0; };
  request.onload = () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* no JSON */ }
    if (request.status < 300 && answer.next) location.assign(answer.next);
    else fail(answer.error ?? `the server answered ${request.status}`);
  };
  request.onerror = () => fail("the server does not respond; check the connection and send the files again");
  request.open("POST", form.getAttribute("action"));
  request.setRequestHeader("X-Accord-Form", "upload");
  request.send(new FormData(form));
  wrong.hidden = true;
  sent.hidden = false;
  button.disabled = true;
});

form?.addEventListener("dragover", (event) => event.preventDefault());
form?.addEventListener("drop", (event) => { // anywhere in the dashed box
  event.preventDefault();
  form.elements.files.files = event.dataTransfer.files;
});

async function watch() { // show the rows read; the page loads again when the import ends
  const answer = await fetch("/import.json").then((found) => found.json()).catch(() => null);
  if (answer?.is_running) box.querySelector("p").textContent = `${answer.upload.rows} rows read.`;
  setTimeout(watch, 1000);
}
const box = document.getElementById("importing");
if (box) setTimeout(watch, 500);

const study = document.getElementById("study"), work = document.getElementById("work");
function tellWork() { // the work per person; the preview states the same without scripts
  const number = (name, missing) => Number(study.elements[name].value) || missing;
  const checked = (start) => study.querySelectorAll(`[name^="${start}"]:checked`).length;
  const people = checked("person.") || Number(work.dataset.people), questions = checked("question.");
  const items = Math.min(number("sample", Infinity), Number(study.elements.filter.selectedOptions[0].dataset.count));
  const each = Math.ceil(items * Math.min(number("annotators_per_item", 1), people) / people);
  const count = Math.min(each, items, number("items_per_annotator", Infinity));
  const noun = { conversation: "conversation", turn: "conversation", pair: "pair" }[study.elements.level.value];
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  work.textContent = people && questions
    ? `${plural(people, "person").replace("persons", "people")}: about ${plural(count, noun)} × ${plural(questions, "question")} each` : "";
}
if (study) {
  study.addEventListener("input", tellWork);
  tellWork();
}

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
  if (answer?.is_running) box.firstElementChild.textContent = `${answer.upload.rows} rows read.`;
  setTimeout(watch, 1000);
}
const box = document.getElementById("importing");
if (box) setTimeout(watch, 500);

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
    document.getElementById("state").textContent = "link copied";
  });
}

// Forms: buttons are off while a form is sent; a waiting page shows when work ends.
// Buttons with data-copy copy a text, or the value of the field with this id.
const sent = new Map(); // by form: the buttons switched off
addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.target === "_blank") return;
  if (sent.has(form)) return event.preventDefault();
  sent.set(form, []);
  setTimeout(() => { // the browser reads the pressed button after this event, not one that is off
    if (!sent.has(form)) return;
    const buttons = [...form.elements].filter((each) => each.type === "submit" && !each.disabled);
    for (const button of buttons) button.disabled = true;
    sent.set(form, buttons);
    form.setAttribute("aria-busy", "true");
  });
});
addEventListener("pageshow", () => { // also after Back
  for (const [form, buttons] of sent) {
    for (const button of buttons) button.disabled = false;
    form.removeAttribute("aria-busy");
  }
  sent.clear();
});

async function look() {
  const text = await fetch(location.href).then((answer) => answer.text()).catch(() => "");
  const { body } = new DOMParser().parseFromString(text, "text/html");
  if (text && !("waiting" in body.dataset)) return location.reload();
  const id = "#progress", now = body.querySelector(id);
  if (now) document.querySelector(id)?.replaceWith(now);
  setTimeout(look, 2000);
}
addEventListener("DOMContentLoaded", () => {
  if ("waiting" in document.body.dataset) setTimeout(look, 1000);
});

addEventListener("click", async ({ target }) => {
  const button = target.closest?.("[data-copy]"), label = button?.lastChild;
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy)?.value ?? button.dataset.copy);
  const before = label.data;
  label.data = "Copied";
  setTimeout(() => { label.data = before; }, 2000);
});
addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
});

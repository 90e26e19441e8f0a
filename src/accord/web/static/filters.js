// Filters apply when a choice changes; without scripts the button applies them.
for (const form of document.querySelectorAll("form[data-applies]")) {
  form.querySelector("button:not([type])").hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}

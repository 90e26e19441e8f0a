// Light or dark theme: the saved choice or the default; runs before the first paint.
{
  const { dataset } = document.documentElement, other = () => (dataset.look === "dark" ? "light" : "dark");
  dataset.look = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try { dataset.look = localStorage.look ?? dataset.look; } catch { /* no storage */ }
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("look"), name = button?.querySelector("span");
    if (!button) return;
    const show = () => { name.textContent = other() === "dark" ? "Dark" : "Light"; };
    button.hidden = false;
    show();
    button.onclick = () => {
      dataset.look = other();
      show();
      try { localStorage.look = dataset.look; } catch { /* no storage */ }
    };
  });
}

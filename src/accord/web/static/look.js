// Light or dark theme: the saved choice or the default; runs before the first paint.
{
  const { dataset } = document.documentElement, other = () => (dataset.look === "dark" ? "light" : "dark");
  dataset.look = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try { dataset.look = localStorage.look ?? dataset.look; } catch { /* no storage */ }
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("look");
    button.hidden = false;
    button.textContent = other();
    button.onclick = () => {
      button.textContent = dataset.look;
      dataset.look = other();
      try { localStorage.look = dataset.look; } catch { /* no storage */ }
    };
  });
}

// Light or dark: as the system says, or as it was chosen here; loaded before anything is drawn.
{
  const { dataset } = document.documentElement, other = () => (dataset.look === "dark" ? "light" : "dark");
  dataset.look = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try { dataset.look = localStorage.look ?? dataset.look; } catch { /* as the system says */ }
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("look");
    button.hidden = false;
    button.textContent = other();
    button.onclick = () => {
      button.textContent = dataset.look;
      dataset.look = other();
      try { localStorage.look = dataset.look; } catch { /* for this page */ }
    };
  });
}

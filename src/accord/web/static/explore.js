// A chart that Vega-Lite draws: the specification comes from the server, colours are those of the page.
const place = document.getElementById("chart"), failed = document.getElementById("failed");
const tried = document.createElement("span"); // a custom property with light-dark() is resolved where it is used
function colour(name) {
  tried.style.color = `var(${name})`;
  document.body.append(tried);
  const found = getComputedStyle(tried).color;
  tried.remove();
  return found;
}

let drawn;
async function draw() {
  try {
    const answer = await fetch(place.dataset.from);
    const { chart, error } = await answer.json();
    if (error) throw new Error(error);
    const text = colour("--text"), line = colour("--line"), axis = { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 13, titleFontWeight: 600 };
    const config = { background: null, axis, legend: { labelColor: text, titleColor: text, labelFontSize: 12, titleFontSize: 13 }, range: { category: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c"] }, view: { stroke: line }, font: "system-ui, sans-serif", mark: { color: colour("--accent") } };
    drawn?.finalize();
    drawn = await window.vegaEmbed(place, { ...chart, config }, { ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: false });
    place.querySelector("svg").setAttribute("aria-hidden", "true"); // the figure's caption says what it shows
    place.dataset.drawn = "yes";
  } catch (error) {
    failed.textContent = `The chart could not be drawn: ${error.message}`;
    failed.hidden = false;
  }
}
draw();
document.getElementById("look").addEventListener("click", () => setTimeout(draw));

// Puts the charts into the page.

document.querySelectorAll("canvas.memory").forEach((canvas) => {
  new MemoryChart(canvas, data.memory[Number(canvas.dataset.group)]);
});
document.querySelectorAll("canvas.lanes").forEach((canvas) => new LanesChart(canvas));
for (const swatch of document.querySelectorAll(".swatch[data-colour]")) {
  swatch.style.background = swatch.dataset.colour;
}

const buttons = {
  "zoom-in": () => zoom(0.5),
  "zoom-out": () => zoom(2),
  earlier: () => pan(-0.2),
  later: () => pan(0.2),
  whole: () => show(whole.from, whole.to),
  theme: () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : darkness.matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  },
};
const darkness = matchMedia("(prefers-color-scheme: dark)");
for (const [id, action] of Object.entries(buttons)) {
  document.getElementById(id).addEventListener("click", action);
}
darkness.addEventListener("change", redraw);
addEventListener("resize", redraw);

// Programs begin with imports: what is shown at first begins with the first event.
const begins = [data.operations.begin[0], ...data.memory.map((group) => group.at[0])]
  .filter((time) => time !== undefined);
const begin = begins.length ? Math.min(...begins) : 0;
show(begin - 0.02 * (whole.to - begin), whole.to);

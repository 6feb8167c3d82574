// What all charts share: the data, the time that is shown, how figures are written, the tip.

const data = JSON.parse(document.getElementById("data").textContent);
const OTHERS = "#8b949e";
const whole = { from: 0, to: Math.max(data.length, 1000) };
const view = { ...whole };
const charts = [];
const SHORTEST = 1000; // nanoseconds that can be shown at least

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return (unit ? bytes.toFixed(2) : bytes) + " " + units[unit];
}

function duration(ns) {
  for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= factor) return (ns / factor).toFixed(2) + " " + unit;
  }
  return Math.round(ns) + " ns";
}

// A time since the begin, in milliseconds, as precise as `step` nanoseconds need.
function moment(ns, step = 1000) {
  return (ns / 1e6).toFixed(Math.min(6, Math.max(0, Math.ceil(6 - Math.log10(step))))) + " ms";
}

function lineOf(place) {
  const { lines } = data.places[place];
  if (!lines.length) return "(no line known)";
  return lines.map(([line, name], n) => (n ? "  called from " : "") + line + " in " + name).join("\n");
}

let planned = false;
function redraw() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    const step = (view.to - view.from) / 1000;
    document.getElementById("shown").textContent =
      moment(view.from, step) + " to " + moment(view.to, step) + " of " + duration(whole.to);
    for (const chart of charts) chart.draw();
  });
}

function show(from, to) {
  const span = Math.min(Math.max(to - from, SHORTEST), whole.to);
  view.from = Math.min(Math.max(from, 0), whole.to - span);
  view.to = view.from + span;
  redraw();
}

// Zoom by a factor around a time that stays where it is.
function zoom(factor, around = (view.from + view.to) / 2) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function pan(share) {
  const by = share * (view.to - view.from);
  show(view.from + by, view.to + by);
}

// Bring a time into view, if it is not.
function reveal(from, to) {
  if (to < view.from || from > view.to) {
    const half = (view.to - view.from) / 2;
    show((from + to) / 2 - half, (from + to) / 2 + half);
  }
}

const tip = document.getElementById("tip");
function tell(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
}
function tellNothing() {
  tip.hidden = true;
}

// A canvas with a time axis. `paint(pen, width, height, colours)` draws it, `at(time, x, y)` gives
// the text for a place in it, `step(direction)` the text and time for the next thing by keyboard.
class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    charts.push(this);
    canvas.addEventListener("pointermove", (event) => this.dragged(event));
    canvas.addEventListener("mousemove", (event) => this.pointed(event));
    canvas.addEventListener("pointerdown", (event) => {
      this.held = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => { this.held = undefined; });
    canvas.addEventListener("pointercancel", () => { this.held = undefined; });
    canvas.addEventListener("mouseleave", tellNothing);
    canvas.addEventListener("blur", tellNothing);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(event.offsetX));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.pressed(event));
  }

  time(x) {
    return view.from + (x / this.canvas.clientWidth) * (view.to - view.from);
  }

  x(time) {
    return ((time - view.from) / (view.to - view.from)) * this.canvas.clientWidth;
  }

  dragged(event) {
    if (this.held === undefined) return;
    tellNothing();
    pan((this.held - event.clientX) / this.canvas.clientWidth);
    this.held = event.clientX;
  }

  pointed(event) {
    if (this.held !== undefined) return;
    const text = this.at(this.time(event.offsetX), event.offsetX, event.offsetY);
    if (text) tell(text, event.clientX, event.clientY);
    else tellNothing();
  }

  pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const key = event.key.toLowerCase();
    if (key === "+" || key === "=") zoom(0.5);
    else if (key === "-") zoom(2);
    else if (key === "0") show(whole.from, whole.to);
    else if (key === "arrowleft") pan(-0.2);
    else if (key === "arrowright") pan(0.2);
    else if (key === "n" || key === "p") {
      const found = this.step(key === "n" ? 1 : -1);
      if (found) {
        reveal(found.from, found.to);
        redraw();
        const box = this.canvas.getBoundingClientRect();
        tell(found.text, box.left + Math.max(0, this.x(found.from)), box.top + 20);
      }
    } else return;
    event.preventDefault();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const dots = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * dots) || this.canvas.height !== Math.round(height * dots)) {
      this.canvas.width = Math.round(width * dots);
      this.canvas.height = Math.round(height * dots);
    }
    const style = getComputedStyle(document.documentElement);
    const colours = {};
    for (const name of ["ink", "faint", "paper", "raised", "line"]) {
      colours[name] = style.getPropertyValue("--" + name).trim();
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    this.paint(pen, width, height, colours);
  }

  // Vertical lines at round times, with their times at the bottom.
  axis(pen, width, height, colours) {
    const about = ((view.to - view.from) * 110) / width;
    const power = 10 ** Math.floor(Math.log10(about));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= about);
    pen.textAlign = "left";
    for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.strokeStyle = colours.line;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, height);
      pen.stroke();
      pen.fillStyle = colours.faint;
      pen.fillText(moment(time, step), x + 3, height - 5);
    }
  }
}

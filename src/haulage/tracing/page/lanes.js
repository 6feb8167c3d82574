// Operations over time: one lane for each stream, and one for each thread that waited.

const LANE = 30;

class LanesChart extends Chart {
  constructor(canvas) {
    super(canvas);
    this.byLane = data.lanes.map(() => []);
    data.operations.lane.forEach((lane, n) => this.byLane[lane].push(n));
    this.cursor = -1;
    canvas.style.height = data.lanes.length * LANE + ROOM + "px";
  }

  // The first operation of a lane that ends after a time; they do not overlap.
  first(lane, time) {
    const { begin, length } = data.operations;
    let low = 0;
    let high = lane.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (begin[lane[middle]] + length[lane[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  paint(pen, width, height, colours) {
    this.axis(pen, width, height, colours);
    const { begin, length, kind, name } = data.operations;
    this.byLane.forEach((lane, number) => {
      const y = number * LANE;
      const drawn = data.kinds.map(() => -1); // up to which pixel each kind is
      for (let at = this.first(lane, view.from); at < lane.length; at += 1) {
        const n = lane[at];
        if (begin[n] > view.to) break;
        const x = Math.max(this.x(begin[n]), 0);
        const end = Math.min(Math.max(this.x(begin[n] + length[n]), x + 1), width);
        // What is within a pixel of its own kind cannot be seen.
        if (end <= drawn[kind[n]]) continue;
        pen.fillStyle = data.kinds[kind[n]].colour;
        pen.fillRect(x, y + 13, end - x, LANE - 16);
        drawn[kind[n]] = Math.ceil(end);
        if (end - x > 60) {
          pen.save();
          pen.beginPath();
          pen.rect(x, y + 13, end - x - 3, LANE - 16);
          pen.clip();
          pen.fillStyle = "#ffffff";
          pen.fillText(data.names[name[n]], x + 4, y + 24);
          pen.restore();
        }
      }
      pen.fillStyle = colours.ink;
      pen.fillText(data.lanes[number], 4, y + 10);
      pen.strokeStyle = colours.line;
      pen.beginPath();
      pen.moveTo(0, y + LANE - 0.5);
      pen.lineTo(width, y + LANE - 0.5);
      pen.stroke();
    });
    if (this.cursor >= 0) {
      const n = this.cursor;
      const x = this.x(begin[n]);
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x, data.operations.lane[n] * LANE + 12, Math.max(this.x(begin[n] + length[n]) - x, 2), LANE - 14);
      pen.lineWidth = 1;
    }
  }

  at(time, x, y) {
    const lane = this.byLane[Math.floor(y / LANE)];
    if (!lane) return "";
    // What is nearest within two pixels: short ones are hard to hit.
    const { begin, length } = data.operations;
    const reach = this.time(x + 2) - time;
    let best = -1;
    let least = Infinity;
    for (let at = this.first(lane, time - reach); at < lane.length; at += 1) {
      const n = lane[at];
      if (begin[n] > time + reach || least === 0) break;
      const away = Math.max(begin[n] - time, time - begin[n] - length[n], 0);
      if (away < least) [best, least] = [n, away];
    }
    return best < 0 ? "" : this.told(best);
  }

  told(n) {
    const { lane, begin, length, kind, name, place, bytes, count, busy } = data.operations;
    const parts = [];
    if (count[n] > 1) parts.push(count[n] + " operations drawn as one");
    const own = data.names[name[n]];
    const { name: what, whole } = data.kinds[kind[n]];
    parts.push(whole && own ? own : (what + " " + own).trim());
    if (bytes[n]) {
      parts.push(size(bytes[n]) + (busy[n] ? ", " + (bytes[n] / busy[n]).toFixed(2) + " GB/s" : ""));
    }
    parts.push(duration(busy[n]) + (busy[n] < length[n] ? " in " + duration(length[n]) : "")
      + " from " + moment(begin[n]));
    parts.push(lineOf(place[n]));
    parts.push(data.lanes[lane[n]]);
    return parts.join("\n");
  }

  step(direction) {
    const count = data.operations.lane.length;
    if (!count) return null;
    this.cursor = Math.min(Math.max(this.cursor + direction, 0), count - 1);
    const { begin, length } = data.operations;
    return {
      from: begin[this.cursor],
      to: begin[this.cursor] + length[this.cursor],
      text: this.told(this.cursor),
    };
  }
}

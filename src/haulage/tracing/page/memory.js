// Memory over time: one stacked area for each owner.

const ROOM = 18; // pixels below the areas, for the times

class MemoryChart extends Chart {
  constructor(canvas, group) {
    super(canvas);
    this.group = group;
    this.order = new Map(group.owners.map((place, n) => [place, n]));
    this.cursor = -1;
    // The bytes of each owner (the last one: all others) each 256 changes, to begin from.
    this.marks = [];
    const state = new Float64Array(group.owners.length + 1);
    for (let n = 0; n < group.at.length; n += 1) {
      if (n % 256 === 0) this.marks.push(state.slice());
      state[this.owner(n)] += group.bytes[n];
    }
  }

  owner(n) {
    return this.order.get(this.group.place[n]) ?? this.group.owners.length;
  }

  // How many changes come until a time, that included.
  until(time) {
    let low = 0;
    let high = this.group.at.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.group.at[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Bytes of each owner after so many changes.
  state(count) {
    if (!count) return new Float64Array(this.group.owners.length + 1);
    const mark = (count - 1) >> 8;
    const state = this.marks[mark].slice();
    for (let n = mark << 8; n < count; n += 1) state[this.owner(n)] += this.group.bytes[n];
    return state;
  }

  // For each pixel the bytes of each owner, at the time within it when they were most.
  columns(width) {
    const { at, bytes } = this.group;
    let n = this.until(view.from);
    const state = this.state(n);
    let total = state.reduce((sum, each) => sum + each, 0);
    const columns = [];
    for (let x = 0; x < width; x += 1) {
      const end = view.from + ((x + 1) / width) * (view.to - view.from);
      let most = total;
      const best = state.slice();
      while (n < at.length && at[n] < end) {
        total += bytes[n];
        state[this.owner(n)] += bytes[n];
        n += 1;
        if (total > most) {
          most = total;
          best.set(state);
        }
      }
      columns.push(best);
    }
    return columns;
  }

  y(bytes, height) {
    return (height - ROOM) * (1 - bytes / this.top);
  }

  paint(pen, width, height, colours) {
    this.top = Math.max(this.group.peak, 1) * 1.08;
    this.axis(pen, width, height, colours);
    const columns = this.columns(Math.max(1, Math.floor(width)));
    const below = new Float64Array(columns.length);
    const owners = this.group.owners.length;
    for (let owner = 0; owner <= owners; owner += 1) {
      pen.fillStyle = owner < owners ? data.colours[owner] : OTHERS;
      pen.beginPath();
      for (let x = 0; x < columns.length; x += 1) {
        const bytes = columns[x][owner];
        if (bytes > 0) {
          const up = this.y(below[x] + bytes, height);
          pen.rect(x, up, 1, this.y(below[x], height) - up);
          below[x] += bytes;
        }
      }
      pen.fill();
    }
    const peak = this.y(this.group.peak, height);
    pen.strokeStyle = colours.faint;
    pen.setLineDash([4, 4]);
    pen.beginPath();
    pen.moveTo(0, peak);
    pen.lineTo(width, peak);
    pen.stroke();
    pen.setLineDash([]);
    const label = "peak " + size(this.group.peak);
    pen.fillStyle = colours.paper;
    pen.fillRect(2, peak + 2, pen.measureText(label).width + 4, 15);
    pen.fillStyle = colours.ink;
    pen.fillText(label, 4, peak + 13);
  }

  at(time, x, y) {
    const count = this.until(this.time(x + 1));
    const column = this.columnAt(time, count);
    let below = 0;
    for (let owner = 0; owner < column.length; owner += 1) {
      const bytes = column[owner];
      if (bytes <= 0) continue;
      below += bytes;
      if (y >= this.y(below, this.canvas.clientHeight) && y <= this.canvas.clientHeight - ROOM) {
        return this.told(owner, bytes, column, time);
      }
    }
    const total = column.reduce((sum, each) => sum + each, 0);
    return moment(time) + ": " + size(total) + " in use";
  }

  // As drawn: the most within the pixel.
  columnAt(time, count) {
    const width = Math.max(1, Math.floor(this.canvas.clientWidth));
    const pixel = (view.to - view.from) / width;
    const begin = view.from + Math.floor((time - view.from) / pixel) * pixel;
    const best = this.state(this.until(begin));
    let most = best.reduce((sum, each) => sum + each, 0);
    const state = best.slice();
    let total = most;
    for (let n = this.until(begin); n < count && this.group.at[n] < begin + pixel; n += 1) {
      total += this.group.bytes[n];
      state[this.owner(n)] += this.group.bytes[n];
      if (total > most) {
        most = total;
        best.set(state);
      }
    }
    return best;
  }

  told(owner, bytes, column, time) {
    const total = column.reduce((sum, each) => sum + each, 0);
    const whose = owner < this.group.owners.length
      ? lineOf(this.group.owners[owner]) : "all lines without a colour of their own";
    return whose + "\n" + size(bytes) + " of " + size(total) + " in use at " + moment(time);
  }

  step(direction) {
    const { at, bytes, place } = this.group;
    if (!at.length) return null;
    this.cursor = Math.min(Math.max(this.cursor + direction, 0), at.length - 1);
    const n = this.cursor;
    const total = this.state(n + 1).reduce((sum, each) => sum + each, 0);
    const what = bytes[n] < 0 ? size(-bytes[n]) + " given back" : size(bytes[n]) + " allocated";
    return {
      from: at[n], to: at[n],
      text: what + " at " + moment(at[n]) + "\n" + lineOf(place[n]) + "\n" + size(total) + " in use",
    };
  }
}

// What is said of a span, how it hangs together with others, search, pointer and keys.

Object.assign(Timeline.prototype, {
  /** A span on a host thread by its number in its group. */
  hostSpan(g, number) {
    if (number < 1) return null;
    const track = this.data.tracks.find((one) => one.kind === 'host' && one.g === g && number - 1 < one.first + one.n && number - 1 >= one.first);
    return track ? this.placed(track, number - 1 - track.first) : null;
  },

  /** The row of an item of a track. */
  placed(track, item) {
    for (const row of track.rows) {
      const i = row.items ? firstWhere(row.n, (k) => row.items[k] >= item) : item;
      if (i < row.n && row.item(i) === item) return { row, i };
    }
    return null;
  },

  /** The launch of a piece of work. */
  partner(thing) {
    const { track } = thing.row;
    return track.kind === 'work' ? this.hostSpan(track.g, track.call[thing.row.item(thing.i)]) : null;
  },

  /** What is known of a span, in lines. */
  facts(thing) {
    const { row, i } = thing;
    const { track } = row;
    const item = row.item(i);
    const start = row.start[i];
    const lines = [this.data.names[track.name[item]]];
    lines.push(`${time(start, 9)}, for ${time(row.end[i] - start)}`);
    lines.push(this.data.groups.length > 1 ? `${track.label}, ${track.group.label}` : track.label);
    if (track.kind !== 'work') return lines;
    const detail = this.data.groups[track.g].details[track.detail[item] - 1];
    if (detail) lines.push(detail);
    const operator = this.hostSpan(track.g, track.operator[item]);
    if (operator) lines.push(`of ${this.data.names[operator.row.track.name[operator.row.item(operator.i)]]}`);
    const call = this.partner(thing);
    if (call) {
      const name = this.data.names[call.row.track.name[call.row.item(call.i)]];
      lines.push(`launched by ${name}, ${time(start - call.row.start[call.i])} before, on ${call.row.track.label}`);
    } else {
      lines.push('its launch is not in this file');
    }
    return lines;
  },

  say(lines, buttons = []) {
    const node = this.parts.detail;
    node.textContent = '';
    lines.forEach((line, k) => {
      const part = document.createElement(k ? 'span' : 'strong');
      part.textContent = line;
      node.append(part);
    });
    for (const [text, act] of buttons) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = text;
      button.addEventListener('click', act);
      node.append(button);
    }
  },

  select(thing, show) {
    this.selected = thing;
    if (!thing) {
      this.say(['Nothing selected.']);
      return this.redraw();
    }
    const { row, i } = thing;
    const closer = () => this.glide(row.start[i] - 3 * (row.end[i] - row.start[i]) - 50, row.end[i] + 3 * (row.end[i] - row.start[i]) + 50);
    const buttons = [['Zoom to it', closer]];
    const call = this.partner(thing);
    if (call) buttons.push(['Its launch', () => this.select(call, true)]);
    this.say(this.facts(thing), buttons);
    if (show) this.reveal(thing);
    this.redraw();
  },

  /** Brings a span into sight without changing the zoom, where it can. */
  reveal(thing) {
    const { row, i } = thing;
    let line = this.lines.find((one) => one.row === row);
    if (!line) {
      row.track.shut = false;
      row.track.group.open = true;
      this.layout();
      line = this.lines.find((one) => one.row === row);
    }
    const scroll = this.parts.scroll;
    if (line && (line.y < scroll.scrollTop || line.y + line.h > scroll.scrollTop + this.tall)) scroll.scrollTop = line.y - this.tall / 2;
    const { t0, t1 } = this.view;
    const span = t1 - t0;
    const long = row.end[i] - row.start[i];
    if (row.start[i] < t0 || row.end[i] > t1 || long < span / 4000) {
      const wide = Math.max(long * 3, Math.min(span, Math.max(long * 400, 1000)));
      const middle = row.start[i] + long / 2;
      this.glide(middle - wide / 2, middle + wide / 2);
    }
  },

  /** The next or the one before in the same row. */
  step(by) {
    if (!this.selected) {
      const line = this.lines.find((one) => one.row && one.row.n && one.row.after(this.view.t0) < one.row.n);
      if (line) this.select({ row: line.row, i: line.row.after(this.view.t0) }, true);
      return;
    }
    const { row, i } = this.selected;
    if (row.n > i + by && i + by >= 0) this.select({ row, i: i + by }, true);
  },

  /** Marks every span whose name has a text. */
  search(text, exactly) {
    const query = text.trim().toLowerCase();
    this.found = query ? Uint8Array.from(this.data.names, (name) => (exactly ? name === text : name.toLowerCase().includes(query)) ? 1 : 0) : null;
    let total = 0;
    for (const track of this.data.tracks) {
      for (const row of track.rows || []) {
        row.hits = null;
        if (!this.found) continue;
        const hits = [];
        for (let i = 0; i < row.n; i++) if (this.found[track.name[row.item(i)]]) hits.push(i);
        total += hits.length;
        if (hits.length) row.hits = Uint32Array.from(hits);
      }
    }
    this.at = null;
    this.parts.count.textContent = query ? (total ? `${total.toLocaleString('en')} found` : 'nothing found') : '';
    this.redraw();
    return total;
  },

  /** The next found span in time, on any row. */
  next(by) {
    const from = this.at ? this.at.row.start[this.at.i] : this.view.t0 - 1;
    let best = null;
    for (const track of this.data.tracks) {
      for (const row of track.rows || []) {
        if (!row.hits) continue;
        const k = firstWhere(row.hits.length, (n) => (by > 0 ? row.start[row.hits[n]] > from : row.start[row.hits[n]] >= from)) - (by > 0 ? 0 : 1);
        if (k < 0 || k >= row.hits.length) continue;
        const one = { row, i: row.hits[k] };
        const closer = best && (row.start[one.i] - best.row.start[best.i]) * by < 0;
        if (!best || closer) best = one;
      }
    }
    if (!best) return;
    this.at = best;
    this.select(best, true);
  },

  listen(find) {
    const { canvas, map, scroll, query } = this.parts;
    const keys = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      ArrowUp: () => (scroll.scrollTop -= 48),
      ArrowDown: () => (scroll.scrollTop += 48),
      '+': () => this.zoom(0.6),
      '=': () => this.zoom(0.6),
      w: () => this.zoom(0.6),
      '-': () => this.zoom(1 / 0.6),
      s: () => this.zoom(1 / 0.6),
      a: () => this.pan(-0.15),
      d: () => this.pan(0.15),
      0: () => this.all(),
      Home: () => this.all(),
      '.': () => this.step(1),
      ',': () => this.step(-1),
      f: () => this.selected && this.reveal(this.selected),
      '/': () => query.focus(),
      Escape: () => {
        this.mark = null;
        this.select(null);
        canvas.blur();
      },
    };
    canvas.addEventListener('keydown', (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    const wheel = (event) => {
      const active = document.activeElement === canvas;
      if (!(event.ctrlKey || event.metaKey || event.shiftKey || active || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan(((event.deltaX || event.deltaY) * unit) / this.width);
      this.zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY * unit)) / 400), event.offsetX / this.width);
    };
    canvas.addEventListener('wheel', wheel, { passive: false });
    this.pointer(canvas);
    this.mapPointer(map);
    scroll.addEventListener('scroll', () => this.redraw(), { passive: true });
    query.addEventListener('input', () => this.search(query.value));
    query.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') {
        query.value = '';
        this.search('');
      }
    });
    const act = { in: () => this.zoom(0.5), out: () => this.zoom(2), all: () => this.all(), before: () => this.next(-1), after: () => this.next(1) };
    for (const [name, go] of Object.entries(act)) find(name).addEventListener('click', go);
    new ResizeObserver(() => this.resize()).observe(scroll);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.theme());
    this.look(0, this.end);
  },

  all() {
    this.mark = null;
    this.glide(0, this.end);
  },

  /** Drag moves, two fingers zoom, a click selects. */
  pointer(canvas) {
    const down = new Map();
    let moved = 0;
    canvas.addEventListener('pointerdown', (event) => {
      down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      canvas.setPointerCapture(event.pointerId);
      if (down.size === 1) moved = 0;
      this.stop();
    });
    canvas.addEventListener('pointermove', (event) => {
      const was = down.get(event.pointerId);
      const now = { x: event.offsetX, y: event.offsetY };
      if (!was) return this.point(now.x, now.y);
      const others = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      if (others.length === 1) {
        const before = Math.max(8, Math.abs(was.x - others[0].x));
        const after = Math.max(8, Math.abs(now.x - others[0].x));
        this.zoom(before / after, others[0].x / this.width);
      } else {
        moved += Math.abs(now.x - was.x) + Math.abs(now.y - was.y);
        this.pan((was.x - now.x) / this.width);
        if (event.pointerType === 'mouse') this.parts.scroll.scrollTop += was.y - now.y;
      }
      down.set(event.pointerId, now);
    });
    const up = (event) => {
      if (down.delete(event.pointerId) && moved < 5 && event.type === 'pointerup') this.select(this.under(event.offsetX, event.offsetY));
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => this.point(-1, -1));
    canvas.addEventListener('dblclick', (event) => this.zoom(0.25, event.offsetX / this.width));
  },

  /** What is under the pointer is told beside it. */
  point(x, y) {
    const thing = x < 0 ? null : this.under(x, y);
    const tip = this.parts.tip;
    const same = thing && this.hover && thing.row === this.hover.row && thing.i === this.hover.i;
    if (!thing) {
      if (this.hover) this.redraw();
      this.hover = null;
      tip.hidden = true;
      return;
    }
    if (!same) {
      this.hover = thing;
      this.redraw();
      tip.textContent = '';
      for (const line of this.facts(thing)) {
        const node = document.createElement('div');
        node.textContent = line;
        tip.append(node);
      }
    }
    tip.hidden = false;
    const gutter = this.parts.labels.offsetWidth;
    const room = this.parts.scroll.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(4, Math.min(room, gutter + x + 14))}px`;
    tip.style.top = `${this.parts.scroll.offsetTop + y + 18}px`;
  },

  /** On the overview a drag chooses the part that is seen. */
  mapPointer(map) {
    let from = null;
    const at = (event) => (event.offsetX / this.width) * this.end;
    map.addEventListener('pointerdown', (event) => {
      from = at(event);
      map.setPointerCapture(event.pointerId);
    });
    map.addEventListener('pointermove', (event) => {
      if (from === null || Math.abs(at(event) - from) < this.end / 400) return;
      this.stop();
      this.look(Math.min(from, at(event)), Math.max(from, at(event)));
    });
    map.addEventListener('pointerup', (event) => {
      if (from !== null && Math.abs(at(event) - from) < this.end / 400) {
        const half = (this.view.t1 - this.view.t0) / 2;
        this.glide(at(event) - half, at(event) + half);
      }
      from = null;
    });
  },
});

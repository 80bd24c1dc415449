// The timeline: where one looks, what is drawn there, and what pointer and keys do.

const MAP = 30;
const RULER = 20;
const COUNTER = 44;
const HEAD = 20;
const LEAST = 20;

/** Nanoseconds as people say them. */
function time(ns, digits = 4) {
  const size = Math.abs(ns);
  if (size < 0.5) return '0';
  const [unit, scale] = size < 1e3 ? ['ns', 1] : size < 1e6 ? ['µs', 1e3] : size < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  return `${Number((ns / scale).toPrecision(digits))} ${unit}`;
}

/** A time on an axis that ends at `most`, as exact as its step asks for. */
function tick(ns, step, most) {
  const [unit, scale] = most < 1e4 ? ['ns', 1] : most < 2e6 ? ['µs', 1e3] : most < 2e9 ? ['ms', 1e6] : ['s', 1e9];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(9, digits))} ${unit}`;
}

class Timeline {
  constructor(box, data) {
    const find = (name) => box.querySelector(`[data-part="${name}"]`);
    this.box = box;
    this.data = data;
    this.parts = {};
    for (const name of ['map', 'scroll', 'inner', 'canvas', 'labels', 'tip', 'detail', 'query', 'count', 'range']) this.parts[name] = find(name);
    this.raster = new Raster(this.parts.canvas);
    this.mapRaster = new Raster(this.parts.map);
    this.end = data.end;
    this.view = { t0: 0, t1: data.end };
    this.mark = null;
    this.selected = null;
    this.hover = null;
    this.stats = { frames: 0, drawn: 0, last: 0 };
    this.prepare();
    this.theme();
    this.layout();
    const deep = data.tracks.reduce((sum, track) => sum + (track.hidden || 0), 0);
    if (deep) this.say([`${deep.toLocaleString('en')} spans within more than ${DEEPEST} others are not drawn.`]);
    this.listen(find);
  }

  /** What colour a span has, and which spans a search found. */
  prepare() {
    const { kinds, host, palette } = this.data;
    const dim = palette.length;
    this.found = null;
    for (const track of this.data.tracks) {
      if (track.kind === 'counter') continue;
      const named = track.kind === 'host' ? (item) => host[track.sort[item]] : (item) => kinds[track.name[item]];
      track.colour = (item) => (this.found && !this.found[track.name[item]] ? dim : named(item));
    }
    for (const group of this.data.groups) group.open = true;
    const many = this.data.tracks.filter((track) => track.kind === 'host').length > 6;
    for (const track of this.data.tracks) track.shut = many && track.kind === 'host' && track.small;
  }

  theme() {
    this.colours = new Colours(this.data.palette);
    this.map = null;
    this.redraw();
  }

  /** Gives every open row its place. */
  layout() {
    const labels = this.parts.labels;
    labels.textContent = '';
    this.lines = [];
    let y = 0;
    const label = (text, at, open, act, deep) => {
      const node = document.createElement(act ? 'button' : 'span');
      node.textContent = text;
      node.title = text;
      node.style.top = `${at}px`;
      if (deep) node.className = 'deep';
      if (act) {
        node.type = 'button';
        node.setAttribute('aria-expanded', String(open));
        node.addEventListener('click', act);
      }
      labels.append(node);
    };
    const again = (thing, key) => () => {
      thing[key] = !thing[key];
      const at = [...labels.children].indexOf(document.activeElement);
      this.layout();
      labels.children[at]?.focus();
    };
    for (const [g, group] of this.data.groups.entries()) {
      if (this.data.groups.length > 1) {
        label(group.label, y, group.open, again(group, 'open'));
        y += HEAD;
      }
      if (!group.open) continue;
      for (const track of this.data.tracks) {
        if (track.g !== g) continue;
        if (track.kind === 'counter') {
          label(track.label, y, true, null, true);
          this.lines.push({ track, y, h: COUNTER });
          y += COUNTER + 6;
          continue;
        }
        const folds = track.rows.length > 1;
        const rows = track.shut ? track.rows.slice(0, 1) : track.rows;
        label(track.label, y, !track.shut, folds ? again(track, 'shut') : null, true);
        for (const row of rows) {
          this.lines.push({ track, row, y, h: ROW });
          y += ROW + GAP;
        }
        y += 5;
      }
      y += 4;
    }
    this.height = Math.max(60, y);
    this.parts.inner.style.height = `${this.height}px`;
    this.resize();
  }

  resize() {
    const gutter = this.parts.labels.offsetWidth;
    const width = Math.max(80, this.parts.scroll.clientWidth - gutter);
    const height = Math.min(this.height, this.parts.scroll.clientHeight || this.height);
    this.width = width;
    this.tall = height;
    this.raster.fit(width, height);
    this.mapRaster.fit(width, MAP + RULER);
    this.map = null;
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const { raster, view, colours } = this;
    const scale = raster.scale;
    const scroll = this.parts.scroll.scrollTop;
    raster.clear(colours.ground);
    const labels = [];
    let drawn = 0;
    for (const line of this.lines) {
      const y = line.y - scroll;
      if (y + line.h < 0 || y > this.tall) continue;
      const y0 = Math.round(y * scale);
      const y1 = Math.round((y + line.h) * scale);
      if (line.row) drawn += paintRow(raster, line.row, view, y0, y1, colours, labels);
      else paintCounter(raster, line.track, view, y0, y1, colours);
    }
    raster.show();
    this.drawNames(labels);
    this.drawMarks(scroll);
    this.drawMap();
    this.stats.drawn = drawn;
    this.stats.frames++;
    this.stats.last = performance.now() - began;
  }

  drawNames(labels) {
    const context = this.raster.context;
    const scale = this.raster.scale;
    context.font = `${11 * scale}px system-ui,sans-serif`;
    context.textBaseline = 'middle';
    const wide = 6.5 * scale;
    for (let k = 0; k < labels.length; k += 6) {
      const [row, i, x0, x1, y0, y1] = labels.slice(k, k + 6);
      const item = row.item(i);
      const room = Math.floor((x1 - x0 - 6 * scale) / wide);
      const name = this.data.names[row.track.name[item]];
      const text = name.length > room ? `${name.slice(0, Math.max(1, room - 1))}…` : name;
      context.fillStyle = this.colours.text[row.track.colour(item)];
      context.fillText(text, x0 + 3 * scale, (y0 + y1) / 2 + scale * 0.5);
    }
  }

  x(time) {
    return ((time - this.view.t0) / (this.view.t1 - this.view.t0)) * this.raster.width;
  }

  /** The range of a finding, what is selected and how they hang together. */
  drawMarks(scroll) {
    const { raster, colours } = this;
    const context = raster.context;
    const scale = raster.scale;
    const place = (thing) => this.lines.find((line) => line.row === thing.row);
    if (this.mark) {
      const x0 = this.x(this.mark.start);
      const x1 = Math.max(x0 + 2 * scale, this.x(this.mark.end));
      context.fillStyle = `rgba(${colours.accent.join(',')},.14)`;
      context.fillRect(x0, 0, x1 - x0, raster.height);
      context.fillStyle = colours.css(colours.accent);
      context.fillRect(x0 - scale, 0, scale * 2, raster.height);
      context.fillRect(x1 - scale, 0, scale * 2, raster.height);
    }
    for (const thing of [this.hover, this.selected]) {
      const line = thing && place(thing);
      if (!line) continue;
      const x0 = this.x(thing.row.start[thing.i]);
      const x1 = this.x(thing.row.end[thing.i]);
      context.strokeStyle = colours.css(colours.ink);
      context.lineWidth = (thing === this.selected ? 2 : 1) * scale;
      context.strokeRect(x0, (line.y - scroll) * scale, Math.max(scale, x1 - x0), line.h * scale);
    }
    const other = this.selected && this.partner(this.selected);
    const from = other && place(this.selected);
    const to = other && place(other);
    if (from && to) {
      const xa = this.x(this.selected.row.start[this.selected.i]);
      const xb = this.x(other.row.start[other.i]);
      const ya = (from.y + from.h / 2 - scroll) * scale;
      const yb = (to.y + to.h / 2 - scroll) * scale;
      context.beginPath();
      context.moveTo(xa, ya);
      context.bezierCurveTo((xa + xb) / 2, ya, (xa + xb) / 2, yb, xb, yb);
      context.lineWidth = 1.5 * scale;
      context.strokeStyle = colours.css(colours.accent);
      context.stroke();
    }
  }

  /** The whole time above, with the part that is seen; below it the axis. */
  drawMap() {
    const { mapRaster: raster, colours, view } = this;
    const scale = raster.scale;
    const whole = { t0: 0, t1: this.end };
    if (!this.map) {
      raster.clear(colours.ground);
      const rows = this.lines.filter((line) => line.row && line.track.kind === 'work').map((line) => line.row);
      const shown = rows.length ? rows : this.lines.filter((line) => line.row).map((line) => line.row);
      const step = (MAP - 4) / Math.max(1, shown.length);
      shown.forEach((row, k) => {
        const y0 = Math.round((2 + k * step) * scale);
        paintRow(raster, row, whole, y0, Math.max(y0 + 1, Math.round((2 + (k + 1) * step) * scale)), colours, []);
      });
      raster.show();
      this.map = raster.context.getImageData(0, 0, raster.width, raster.height);
    }
    const context = raster.context;
    context.putImageData(this.map, 0, 0);
    const at = (time) => (time / this.end) * raster.width;
    context.fillStyle = `rgba(${colours.ground.join(',')},.65)`;
    context.fillRect(0, 0, at(view.t0), MAP * scale);
    context.fillRect(at(view.t1), 0, raster.width - at(view.t1), MAP * scale);
    context.strokeStyle = colours.css(colours.accent);
    context.lineWidth = 2 * scale;
    const left = Math.min(raster.width - 4 * scale, Math.max(scale, at(view.t0)));
    context.strokeRect(left, scale, Math.max(3 * scale, Math.min(raster.width - scale, at(view.t1)) - left), (MAP - 2) * scale);
    this.drawRuler(context, raster, scale);
  }

  drawRuler(context, raster, scale) {
    const { view, colours } = this;
    const span = view.t1 - view.t0;
    const rough = span / Math.max(2, raster.width / scale / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((value) => value >= rough);
    context.fillStyle = colours.css(colours.ground);
    context.fillRect(0, MAP * scale, raster.width, RULER * scale);
    context.font = `${11 * scale}px system-ui,sans-serif`;
    context.textBaseline = 'middle';
    for (let k = Math.ceil(view.t0 / step); k * step < view.t1; k++) {
      const x = this.x(k * step);
      context.fillStyle = colours.css(colours.rule);
      context.fillRect(x, MAP * scale, scale, RULER * scale);
      context.fillStyle = colours.css(colours.muted);
      context.fillText(tick(k * step, step, view.t1), x + 4 * scale, (MAP + RULER / 2) * scale);
    }
  }

  /** Looks at a range; never beyond the ends, never closer than some nanoseconds. */
  look(t0, t1) {
    const margin = this.end * 0.02;
    let span = Math.min(Math.max(t1 - t0, LEAST), this.end + 2 * margin);
    let from = Math.min(Math.max((t0 + t1 - span) / 2, -margin), this.end + margin - span);
    this.view = { t0: from, t1: from + span };
    this.parts.range.textContent = `${time(Math.max(0, from))} – ${time(Math.min(this.end, from + span))}, ${time(span, 3)} wide`;
    this.redraw();
    clearTimeout(this.kept);
    this.kept = setTimeout(() => this.keep(), 400);
  }

  /** Keeps what is seen in the address, so that it can be sent to somebody. */
  keep() {
    const whole = this.view.t0 <= 0 && this.view.t1 >= this.end;
    try {
      history.replaceState(null, '', whole ? location.href.split('#')[0] : `#view=${Math.round(this.view.t0)}-${Math.round(this.view.t1)}`);
    } catch {
      // Some browsers forbid it for files; the view works without.
    }
  }

  /** Moves there so that the eye can follow, where motion is wanted. */
  glide(t0, t1) {
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return this.look(t0, t1);
    const from = this.view;
    const began = performance.now();
    const turn = (this.turn = (this.turn || 0) + 1);
    const go = (now) => {
      if (turn !== this.turn) return;
      const part = Math.min(1, Math.max(0, (now - began) / 220));
      const eased = part * part * (3 - 2 * part);
      this.look(from.t0 + (t0 - from.t0) * eased, from.t1 + (t1 - from.t1) * eased);
      if (part < 1) requestAnimationFrame(go);
    };
    requestAnimationFrame(go);
  }

  stop() {
    this.turn = (this.turn || 0) + 1;
  }

  zoom(factor, at = 0.5) {
    this.stop();
    const { t0, t1 } = this.view;
    const fixed = t0 + (t1 - t0) * at;
    const span = Math.max(LEAST, (t1 - t0) * factor);
    this.look(fixed - span * at, fixed + span * (1 - at));
  }

  pan(share) {
    this.stop();
    const step = (this.view.t1 - this.view.t0) * share;
    this.look(this.view.t0 + step, this.view.t1 + step);
  }

  /** Shows a range with room at both sides, marked. */
  jump(start, end, what, group) {
    const room = Math.max((end - start) * 0.6, 200);
    this.mark = { start, end, what };
    const line = this.lines.find((one) => one.row && one.track.g === group);
    if (line && (line.y < this.parts.scroll.scrollTop || line.y > this.parts.scroll.scrollTop + this.tall)) this.parts.scroll.scrollTop = line.y - HEAD;
    this.say([what, `${time(start)} to ${time(end)}, ${time(end - start)} long`]);
    this.glide(start - room, end + room);
  }

  /** The span under a point of the canvas. */
  under(x, y) {
    const top = y + this.parts.scroll.scrollTop;
    const line = this.lines.find((one) => one.row && top >= one.y && top < one.y + one.h);
    if (!line) return null;
    const perPixel = (this.view.t1 - this.view.t0) / this.width;
    const at = this.view.t0 + x * perPixel;
    const row = line.row;
    const i = row.after(at - perPixel);
    if (i >= row.n || row.start[i] > at + perPixel) return null;
    const last = row.after(at + perPixel, i);
    return { row, i: row.longest(i, Math.max(i + 1, Math.min(row.n, last))) };
  }
}

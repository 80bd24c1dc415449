// Paints rows of spans into pixels: what is narrower than a pixel is told by its share of it.

const SHADES = 16;
const ROW = 15;
const GAP = 1;

/** `#rrggbb` as [r, g, b]. */
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
const mixed = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));

/** Colours of the page as it is now, light or dark. */
class Colours {
  constructor(palette) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => {
      const value = style.getPropertyValue(name).trim();
      return rgb(value.length === 4 ? value.replace(/[^#]/g, '$&$&') : value);
    };
    this.ground = read('--ground');
    this.ink = read('--ink');
    this.soft = read('--soft');
    this.rule = read('--rule');
    this.accent = read('--accent');
    this.muted = read('--muted');
    const dark = this.ground[0] < 128;
    this.full = palette.map((entry) => rgb(dark ? entry.dark : entry.light));
    this.dim = mixed(this.ground, this.ink, 0.16);
    this.shades = [...this.full, this.dim].map((colour) =>
      Uint32Array.from({ length: SHADES + 1 }, (_, k) => packed(mixed(this.soft, colour, 0.25 + (0.75 * k) / SHADES))),
    );
    this.text = [...this.full, this.dim].map((colour) => {
      const [r, g, b] = colour.map((value) => (value / 255) ** 2.2);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
    });
    this.hit = packed(dark ? [255, 214, 10] : [176, 0, 90]);
  }
  css(colour) {
    return `rgb(${colour.join(',')})`;
  }
}

/** A canvas whose pixels are written directly. */
class Raster {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
  }
  /** Fits it to its size on the page; says how many device pixels a CSS pixel has. */
  fit(width, height) {
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const w = Math.max(1, Math.round(width * scale));
    const h = Math.max(1, Math.round(height * scale));
    if (w !== this.width || h !== this.height) {
      this.canvas.width = this.width = w;
      this.canvas.height = this.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      this.image = this.context.createImageData(w, h);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.scale = scale;
    return scale;
  }
  clear(colour) {
    this.pixels.fill(packed(colour));
  }
  /** A rectangle of device pixels. */
  box(x0, y0, x1, y1, value) {
    x0 = Math.max(0, x0);
    x1 = Math.min(this.width, x1);
    y0 = Math.max(0, y0);
    y1 = Math.min(this.height, y1);
    for (let y = y0; y < y1; y++) this.pixels.fill(value, y * this.width + x0, y * this.width + x1);
  }
  /** One pixel. */
  dot(x, y, value) {
    this.pixels[y * this.width + x] = value;
  }
  /** The line at `y` again, down to before `end`. */
  repeat(y, end) {
    const [from, to] = [y * this.width, (y + 1) * this.width];
    for (let at = y + 1; at < end; at++) this.pixels.copyWithin(at * this.width, from, to);
  }
  show() {
    this.context.putImageData(this.image, 0, 0);
  }
}

/**
 * Paints one row between two heights; `labels` gets the spans that have room for a name.
 * Costs at most a search for each pixel, however many spans there are: its first line of pixels is painted and repeated.
 */
function paintRow(raster, row, view, y0, y1, colours, labels) {
  const { start, end, n, track } = row;
  const width = raster.width;
  const perPixel = (view.t1 - view.t0) / width;
  const shades = colours.shades;
  const room = 30 * raster.scale;
  const top = Math.max(0, y0);
  const bottom = Math.min(raster.height, y1);
  if (top >= bottom) return 0;
  let drawn = 0;
  let i = row.after(view.t0);
  while (i < n && start[i] < view.t1) {
    const from = (start[i] - view.t0) / perPixel;
    const to = (end[i] - view.t0) / perPixel;
    drawn++;
    if (to - from >= 1) {
      const x0 = Math.max(0, Math.round(from));
      const x1 = Math.min(width, Math.max(x0 + 1, Math.round(to)));
      // A hair between neighbours that have room for it.
      const hair = x1 - x0 > 3 ? 1 : 0;
      raster.box(x0, top, x1 - hair, top + 1, shades[track.colour(row.item(i))][SHADES]);
      if (x1 - x0 >= room) labels.push(row, i, x0, x1, y0, y1);
      i++;
      continue;
    }
    const pixel = Math.min(width - 1, Math.max(0, Math.floor(from)));
    const edge = view.t0 + (pixel + 1) * perPixel;
    const next = Math.max(i + 1, row.after(edge, i));
    const share = Math.min(1, (row.sum[next] - row.sum[i]) / perPixel);
    const one = next - i > 1 ? row.longest(i, next) : i;
    const value = shades[track.colour(row.item(one))][Math.round(share * SHADES)];
    raster.dot(pixel, top, value);
    i = next;
  }
  raster.repeat(top, bottom);
  if (row.hits) drawn += paintHits(raster, row, view, y0, y1, colours);
  return drawn;
}

/** Marks what a search found, at least two pixels wide. */
function paintHits(raster, row, view, y0, y1, colours) {
  const perPixel = (view.t1 - view.t0) / raster.width;
  const hits = row.hits;
  const least = 2 * raster.scale;
  let drawn = 0;
  let k = firstWhere(hits.length, (at) => row.end[hits[at]] > view.t0);
  while (k < hits.length && row.start[hits[k]] < view.t1) {
    const x0 = Math.round((row.start[hits[k]] - view.t0) / perPixel);
    const x1 = Math.round((row.end[hits[k]] - view.t0) / perPixel);
    if (x1 - x0 < 12 * raster.scale) raster.box(x0, y0, Math.max(x1, x0 + least), y1, colours.hit);
    else raster.box(x0, y1 - least, x1, y1, colours.hit);
    drawn++;
    const edge = view.t0 + (Math.max(x0, x1 - 1) + 1) * perPixel;
    let step = 1;
    let low = k;
    while (low + step < hits.length && row.end[hits[low + step]] <= edge) {
      low += step;
      step *= 2;
    }
    k = Math.max(k + 1, low + firstWhere(Math.min(hits.length, low + step + 1) - low, (at) => row.end[hits[low + at]] > edge));
  }
  return drawn;
}

/** The first of n for which something holds, where it holds for all after it. */
function firstWhere(n, holds) {
  let low = 0;
  let high = n;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Paints a counter as an area; each pixel column goes up to the most of its time. */
function paintCounter(raster, track, view, y0, y1, colours) {
  const { start, value, n, most } = track;
  const perPixel = (view.t1 - view.t0) / raster.width;
  const fill = colours.shades[track.c][SHADES];
  let i = Math.max(0, firstWhere(n, (at) => start[at] > view.t0) - 1);
  for (let x = 0; x < raster.width && most > 0; x++) {
    const to = view.t0 + (x + 1) * perPixel;
    let top = start[i] < to ? value[i] : 0;
    while (i + 1 < n && start[i + 1] < to) top = Math.max(top, value[++i]);
    if (top > 0) raster.box(x, y1 - Math.max(1, Math.round(((y1 - y0) * top) / most)), x + 1, y1, fill);
  }
}

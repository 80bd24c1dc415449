// Unpacks what the page carries: a header in JSON, then columns of variable-length integers.

const DEEPEST = 32;

/** Bytes of a block of base64 that is deflated. */
async function inflate(element) {
  const text = atob(element.textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads columns one after the other. */
class Columns {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }
  /** n integers from 0 up. */
  plain(n, out) {
    const bytes = this.bytes;
    let at = this.at;
    for (let i = 0; i < n; i++) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let scale = 128; byte > 127; scale *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * scale;
      }
      out[i] = value;
    }
    this.at = at;
    return out;
  }
  /** n integers from 0 up, each stored as what it is above the one before. */
  rising(n, out) {
    this.plain(n, out);
    for (let i = 1; i < n; i++) out[i] += out[i - 1];
    return out;
  }
  /** n integers of either sign, each stored as its difference to the one before. */
  moving(n, out) {
    this.plain(n, out);
    let last = 0;
    for (let i = 0; i < n; i++) {
      const stored = out[i];
      last += stored % 2 ? -(stored + 1) / 2 : stored / 2;
      out[i] = last;
    }
    return out;
  }
}

/** Spans of one row: they do not overlap, so that starts and ends both rise. */
class Row {
  constructor(track, level, items) {
    this.track = track;
    this.level = level;
    this.n = items ? items.length : track.n;
    this.items = items;
    this.start = items ? gather(track.start, items) : track.start;
    this.end = items ? gather(track.end, items) : track.end;
    const sum = new Float64Array(this.n + 1);
    for (let i = 0; i < this.n; i++) sum[i + 1] = sum[i] + (this.end[i] - this.start[i]);
    this.sum = sum;
    this.best = this.pyramid();
    this.hits = null;
  }
  item(i) {
    return this.items ? this.items[i] : i;
  }
  /** For blocks of 16, 256, ... spans: the longest of each. */
  pyramid() {
    const levels = [];
    let below = null;
    for (let n = this.n; n > 16; ) {
      const m = Math.ceil(n / 16);
      const level = new Uint32Array(m);
      for (let b = 0; b < m; b++) {
        let best = below ? below[b * 16] : b * 16;
        const last = Math.min(n, b * 16 + 16);
        for (let k = b * 16 + 1; k < last; k++) {
          const other = below ? below[k] : k;
          if (this.end[other] - this.start[other] > this.end[best] - this.start[best]) best = other;
        }
        level[b] = best;
      }
      levels.push(level);
      below = level;
      n = m;
    }
    return levels;
  }
  /** The longest span of [i, j). */
  longest(i, j) {
    let best = i;
    const better = (k) => {
      if (this.end[k] - this.start[k] > this.end[best] - this.start[best]) best = k;
    };
    while (i < j) {
      let size = 1;
      let level = -1;
      while (level + 1 < this.best.length && i % (size * 16) === 0 && i + size * 16 <= j) {
        size *= 16;
        level++;
      }
      better(level < 0 ? i : this.best[level][i / size]);
      i += size;
    }
    return best;
  }
  /** The first span from `from` on that ends after a time. */
  after(time, from = 0) {
    // Near ones first: the next is usually close.
    const end = this.end;
    let step = 1;
    let low = from;
    while (low + step < this.n && end[low + step] <= time) {
      low += step;
      step *= 2;
    }
    let high = Math.min(this.n, low + step + 1);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (end[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The values at some places. */
function gather(values, items) {
  const out = new Float64Array(items.length);
  for (let i = 0; i < items.length; i++) out[i] = values[items[i]];
  return out;
}

/** Rows of a track: what runs within another span stands below it. */
function rowsOf(track) {
  const { start, end, n } = track;
  const open = new Float64Array(DEEPEST + 1);
  const depth = new Uint8Array(n);
  const counts = new Uint32Array(DEEPEST + 1);
  // Rows from `top` on are free.
  let top = 0;
  for (let i = 0; i < n; i++) {
    // The highest row that is free: within a span that is the next below it.
    while (top > 0 && open[top - 1] <= start[i]) top--;
    let level = 0;
    while (level < top && open[level] > start[i]) level++;
    if (level === top && top < DEEPEST) top++;
    if (level < DEEPEST) open[level] = end[i];
    depth[i] = level;
    counts[level]++;
  }
  track.hidden = counts[DEEPEST];
  if (counts[0] === n) return [new Row(track, 0, null)];
  const rows = [];
  for (let level = 0; level < DEEPEST && counts[level]; level++) {
    const items = new Uint32Array(counts[level]);
    for (let i = 0, k = 0; i < n; i++) if (depth[i] === level) items[k++] = i;
    rows.push(new Row(track, level, items));
  }
  return rows;
}

/** The whole content of the page's timeline. */
async function decode(element) {
  const bytes = await inflate(element);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = new Columns(bytes, 4 + length);
  const host = data.groups.map(() => 0);
  for (const track of data.tracks) {
    const n = track.n;
    track.group = data.groups[track.g];
    track.start = columns.rising(n, new Float64Array(n));
    if (track.kind === 'counter') {
      track.value = columns.moving(n, new Float64Array(n));
      track.most = track.value.reduce((most, value) => Math.max(most, value), 0);
      continue;
    }
    track.end = columns.plain(n, new Float64Array(n));
    for (let i = 0; i < n; i++) track.end[i] += track.start[i];
    track.name = columns.plain(n, new Uint32Array(n));
    if (track.kind === 'work') {
      track.call = columns.moving(n, new Float64Array(n));
      track.operator = columns.moving(n, new Float64Array(n));
      track.detail = columns.moving(n, new Float64Array(n));
    }
    if (track.kind === 'host') {
      track.sort = columns.plain(n, new Uint8Array(n));
      track.first = host[track.g];
      host[track.g] += n;
    }
    track.rows = rowsOf(track);
    await pause();
  }
  return data;
}

let rested = performance.now();
/** Lets the page answer when this has gone on for long. */
async function pause() {
  if (performance.now() - rested < 40) return;
  await new Promise((next) => setTimeout(next));
  rested = performance.now();
}

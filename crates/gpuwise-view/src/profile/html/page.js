// Tables that sort, search and copy; findings that lead to their place; the timeline's start.

/** Text into the clipboard, also where the newer way is not allowed. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

const raw = (cell) => cell.dataset.v ?? cell.textContent;
const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

/** Rows of a table as CSV or JSON, those that are shown. */
function written(table, kind) {
  const keys = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.k || cell.textContent.trim());
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  if (kind === 'csv') return [keys, ...rows.map((row) => [...row.cells].map(raw))].map((cells) => cells.map(quoted).join(',')).join('\n') + '\n';
  const value = (cell) => {
    const text = raw(cell);
    if (text === '' || text === '–') return null;
    return cell.classList.contains('n') && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  return JSON.stringify(rows.map((row) => Object.fromEntries([...row.cells].map((cell, k) => [keys[k], value(cell)]))), null, 1);
}

function sorts(table, header, column) {
  const button = document.createElement('button');
  button.type = 'button';
  button.append(...header.childNodes);
  header.append(button);
  button.addEventListener('click', () => {
    const up = header.getAttribute('aria-sort') === 'descending' || (header.getAttribute('aria-sort') === null && !header.classList.contains('n'));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    header.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const rows = [...table.tBodies[0].rows];
    const key = (row) => raw(row.cells[column]);
    const number = (text) => (text === '' || text === '–' ? NaN : Number(text));
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const [p, q] = [number(x), number(y)];
      // What is not known stays last, whichever way.
      if (header.classList.contains('n')) return Number.isNaN(p) - Number.isNaN(q) || (up ? p - q : q - p) || 0;
      return up ? x.localeCompare(y) : y.localeCompare(x);
    });
    table.tBodies[0].append(...rows);
  });
}

function enliven(table) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => sorts(table, header, column));
  const bar = document.createElement('div');
  bar.className = 'bar';
  const rows = [...table.tBodies[0].rows];
  const name = table.caption ? table.caption.textContent : 'table';
  if (rows.length > 8) {
    const input = document.createElement('input');
    input.type = 'search';
    input.placeholder = `Search ${rows.length} rows`;
    input.setAttribute('aria-label', `Search in ${name}`);
    input.addEventListener('input', () => {
      const query = input.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(query);
    });
    bar.append(input);
  }
  for (const kind of ['csv', 'json']) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `Copy ${kind.toUpperCase()}`;
    button.setAttribute('aria-label', `Copy ${name} as ${kind.toUpperCase()}`);
    button.addEventListener('click', async () => {
      const done = await copy(written(table, kind));
      button.textContent = done ? 'Copied' : 'Not copied';
      setTimeout(() => (button.textContent = `Copy ${kind.toUpperCase()}`), 1500);
    });
    bar.append(button);
  }
  table.parentElement.before(bar);
}

/** What a link of a finding or of a kernel leads to. */
function leads(timeline, box) {
  document.addEventListener('click', (event) => {
    const place = event.target.closest?.('[data-from]');
    const name = event.target.closest?.('[data-name]');
    if (!place && !name) return;
    event.preventDefault();
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    box.scrollIntoView({ behavior: calm ? 'auto' : 'smooth', block: 'start' });
    timeline.parts.canvas.focus({ preventScroll: true });
    if (place) return timeline.jump(Number(place.dataset.from), Number(place.dataset.to), place.dataset.what, Number(place.dataset.group));
    const text = timeline.data.names[Number(name.dataset.name)];
    timeline.parts.query.value = text;
    timeline.search(text, true);
    timeline.next(1);
  });
}

function follow(timeline) {
  const go = () => {
    const view = /^#view=(-?\d+)-(\d+)$/.exec(location.hash);
    if (view) timeline.look(Number(view[1]), Number(view[2]));
  };
  go();
  addEventListener('hashchange', go);
}

async function start() {
  document.querySelectorAll('table').forEach(enliven);
  const box = document.getElementById('timeline-box');
  const packed = document.getElementById('packed');
  if (!box || !packed) return;
  const status = box.querySelector('[data-part="status"]');
  if (typeof DecompressionStream === 'undefined') {
    status.textContent = 'This browser cannot unpack the timeline; every newer one can. The rest of the page is complete.';
    return;
  }
  try {
    const data = await decode(packed);
    box.classList.add('live');
    const timeline = new Timeline(box, data);
    status.remove();
    leads(timeline, box);
    follow(timeline);
    window.timeline = timeline;
  } catch (error) {
    status.textContent = `The timeline cannot be shown: ${error.message}`;
    throw error;
  }
}

requestAnimationFrame(() => setTimeout(start));

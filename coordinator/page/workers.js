// The table of workers, worst first.

import { boundMs, duration, element, idList, plural, rate, setClass, setText, signedMs, workerName } from './words.js';

const FIRST_ROWS = 50;
const ranks = { CRIT: 0, UNKNOWN: 1, WARN: 2, OK: 3 };
const order = new Intl.Collator('en', { numeric: true });

function serves(worker) {
  return worker.state === null || worker.state === 'SERVING';
}

// A worker that issues nothing is worse than any clock.
function badness(worker) {
  return worker.state === 'STARVED' || worker.state === 'HALTED' ? -1 : ranks[worker.verdict] + (serves(worker) ? 0 : -0.5);
}

function byName(a, b) {
  return order.compare(workerName(a), workerName(b)) || order.compare(a.instance, b.instance);
}

function nullsLast(a, b, key) {
  const left = key(a), right = key(b);
  if (left === null || right === null) return (left === null) - (right === null);
  return left - right;
}

const columns = [
  { name: 'Verdict', sort: (a, b) => badness(a) - badness(b) },
  { name: 'Worker', sort: byName },
  { name: 'Machine IDs', sort: (a, b) => nullsLast(a, b, (w) => w.machine_ids[0] ?? null) },
  { name: 'State', sort: (a, b) => order.compare(b.state || '', a.state || '') },
  { name: 'Runway', sort: (a, b) => nullsLast(a, b, (w) => w.runway_ms) },
  { name: 'IDs/s', sort: (a, b) => nullsLast(a, b, (w) => (w.rate_per_s === null ? null : -w.rate_per_s)) },
  { name: 'Clock offset', sort: (a, b) => nullsLast(a, b, (w) => (w.offset_ms === null ? null : -Math.abs(w.offset_ms))) },
];

const verdictWords = { OK: 'ok', WARN: 'warning', CRIT: 'critical', UNKNOWN: 'not heard' };
const verdictSigns = { OK: '✓', WARN: '▲', CRIT: '✖', UNKNOWN: '?' };

// Why the verdict is what it is, for the row's second line.
function note(worker) {
  if (worker.refused && worker.missing > 0) return `gets no machine ID: ${worker.refused}`;
  if (!serves(worker)) return worker.reason || '';
  if (!worker.heard) return worker.not_heard_because || 'not asked yet';
  if (worker.reason) return worker.reason;
  if (worker.synchronized === false) return 'its clock is not synchronised';
  return '';
}

export function createTable(onSelect) {
  const body = document.getElementById('rows');
  const remark = document.getElementById('rows-note');
  const filter = document.getElementById('filter');
  const all = document.getElementById('all');
  const head = document.getElementById('columns');
  const rows = new Map(); // by instance
  let workers = [];
  let sorted = 0;
  let limit = FIRST_ROWS;
  let selected = '';

  function makeRow(instance) {
    const row = element('tr');
    row.dataset.instance = instance;
    const cells = columns.map((column) => {
      const cell = element('td');
      cell.dataset.label = column.name;
      row.append(cell);
      return cell;
    });
    const made = {
      row, cells,
      sign: element('span', 'sign'), word: element('span'),
      name: element('button', 'name'), note: element('span', 'note'),
      bar: element('meter'), runway: element('span'),
      offset: element('span'), bound: element('span', 'bound'),
    };
    made.sign.ariaHidden = 'true';
    made.name.type = 'button';
    made.bar.max = 60;
    made.bar.low = 10;
    made.bar.high = 20;
    made.bar.optimum = 60;
    made.bar.ariaHidden = 'true';
    cells[0].append(made.sign, made.word);
    cells[1].append(made.name, made.note);
    cells[4].append(made.bar, made.runway);
    cells[6].append(made.offset, made.bound);
    made.name.addEventListener('click', () => onSelect(instance));
    rows.set(instance, made);
    return made;
  }

  function fill(made, worker) {
    const verdict = worker.verdict;
    setClass(made.row, selected === worker.instance ? `${verdict} selected` : verdict);
    setText(made.sign, verdictSigns[verdict] || '?');
    setText(made.word, verdictWords[verdict] || verdict);
    setText(made.name, workerName(worker));
    made.name.ariaPressed = String(selected === worker.instance);
    made.name.title = `instance ${worker.instance}, ${worker.http || 'no address'}, version ${worker.version || 'unknown'}`;
    setText(made.note, note(worker));
    setText(made.cells[2], idList(worker.machine_ids) || '–');
    setText(made.cells[3], worker.state ? worker.state.toLowerCase() : '–');
    setText(made.runway, worker.runway_ms === null ? '–' : worker.runway_ms < 0 ? 'used up' : duration(worker.runway_ms));
    made.bar.hidden = worker.runway_ms === null;
    made.bar.value = Math.max(0, Math.min(60, (worker.runway_ms || 0) / 1000));
    setText(made.cells[5], rate(worker.rate_per_s));
    setText(made.offset, worker.offset_ms === null ? '–' : signedMs(worker.offset_ms));
    setText(made.bound, worker.bound_ms === null ? '' : boundMs(worker.bound_ms));
  }

  function matches(worker, words) {
    const text = [workerName(worker), worker.instance, worker.http, worker.state, worker.verdict,
      verdictWords[worker.verdict], worker.version, note(worker)].join(' ').toLowerCase();
    return words.every((word) => text.includes(word) ||
      (/^\d+$/.test(word) && worker.machine_ids.includes(Number(word))));
  }

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? workers.filter((worker) => matches(worker, words)) : [...workers];
    found.sort((a, b) => columns[sorted].sort(a, b) || byName(a, b));
    const drawn = found.slice(0, limit);
    const known = new Set(workers.map((worker) => worker.instance));
    for (const [instance, made] of rows) {
      if (known.has(instance)) continue;
      made.row.remove();
      rows.delete(instance);
    }
    let place = body.firstElementChild;
    for (const worker of drawn) {
      const made = rows.get(worker.instance) || makeRow(worker.instance);
      fill(made, worker);
      if (made.row === place) place = place.nextElementSibling;
      else body.insertBefore(made.row, place);
    }
    while (place) {
      const next = place.nextElementSibling;
      place.remove();
      place = next;
    }
    const remaining = found.length - drawn.length;
    setText(remark, !workers.length ? 'No worker is registered in etcd.'
      : !found.length ? `None of ${plural(workers.length, 'worker')} fits.`
        : words.length ? `${found.length.toLocaleString('en')} of ${plural(workers.length, 'worker')} fit${remaining ? `; ${drawn.length} shown` : ''}.`
          : remaining ? `${drawn.length} of ${plural(workers.length, 'worker')} shown.` : '');
    all.hidden = remaining <= 0 && limit === FIRST_ROWS;
    setText(all, remaining > 0 ? `Show all ${found.length.toLocaleString('en')}` : `Show the first ${FIRST_ROWS}`);
  }

  columns.forEach((column, i) => {
    const cell = element('th');
    const button = element('button', '', column.name);
    cell.scope = 'col';
    button.type = 'button';
    button.addEventListener('click', () => {
      sorted = i;
      showOrder();
      draw();
    });
    cell.append(button);
    head.append(cell);
  });

  function showOrder() {
    [...head.children].forEach((cell, i) => {
      cell.ariaSort = i === sorted ? 'ascending' : 'none';
    });
  }

  showOrder();
  filter.addEventListener('input', draw);
  all.addEventListener('click', () => {
    limit = limit === FIRST_ROWS ? Infinity : FIRST_ROWS;
    draw();
  });

  return {
    update(list) {
      workers = list;
      draw();
    },
    select(instance) {
      selected = instance || '';
      draw();
    },
  };
}

// Offsets of the clocks over time, each with the band that the truth lies in.

import { boundMs, element, plural, setText, signedMs, sizeMs } from './words.js';

const LINES = 6; // as many as can be told apart
const WIDE = 900; // as in fleet.css
const FEW = 30; // so few times that their points are worth showing
const RELOAD_MS = 15 * 60 * 1000; // what was added since is finer than the rest
const dashes = [[], [8, 4], [2, 3], [12, 4, 2, 4], [5, 5], [16, 5]];

function nodeName(node) {
  return node.identity || node.instance.slice(0, 12);
}

// The last value that is known.
function latest(node) {
  for (let i = node.offset_ms.length - 1; i >= 0; i--) {
    if (node.offset_ms[i] !== null) return i;
  }
  return -1;
}

function farthest(node) {
  const i = latest(node);
  return i < 0 ? -1 : Math.abs(node.offset_ms[i]);
}

// 24 hours a day, seconds where they tell, and the date where it changes.
function timeLabels(u, splits) {
  const second = splits.length > 1 && splits[1] - splits[0] < 60 ? '2-digit' : undefined;
  let day = '';
  return splits.map((at) => {
    const time = new Date(at * 1000);
    const date = time.toLocaleDateString('en-CA');
    const label = time.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second });
    const first = date !== day;
    day = date;
    return first ? `${label}\n${date}` : label;
  });
}

function fade(colour, alpha) {
  return colour + Math.round(alpha * 255).toString(16).padStart(2, '0');
}

export function createPlot() {
  const box = document.getElementById('plot');
  const legend = document.getElementById('plot-legend');
  const summary = document.getElementById('plot-summary');
  const span = document.getElementById('span');
  const scale = document.getElementById('scale');
  let times = [];
  let nodes = new Map(); // by instance: {identity, instance, offset_ms, bound_ms, present}
  let chosen = ''; // an instance that is shown whatever its offset
  let loadedAt = 0;
  let interval = 10000;
  let drawn = null; // the uPlot
  let drawnAs = '';

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function empty(n) {
    return new Array(n).fill(null);
  }

  // Adds an answer that begins after the last time kept.
  function append(answer) {
    const added = answer.times_ms.map(Number);
    const from = Number(span.value);
    for (const node of answer.nodes) {
      if (!nodes.has(node.instance))
        nodes.set(node.instance, { offset_ms: empty(times.length), bound_ms: empty(times.length) });
      const kept = nodes.get(node.instance);
      kept.identity = node.identity;
      kept.instance = node.instance;
      kept.present = node.present !== false;
      kept.offset_ms = kept.offset_ms.concat(node.offset_ms);
      kept.bound_ms = kept.bound_ms.concat(node.bound_ms);
    }
    times = times.concat(added);
    const oldest = times.findIndex((time) => time >= times[times.length - 1] - from);
    const cut = Math.max(0, oldest);
    times = times.slice(cut);
    for (const [instance, node] of nodes) {
      node.offset_ms = node.offset_ms.slice(cut);
      node.bound_ms = node.bound_ms.slice(cut);
      while (node.offset_ms.length < times.length) {
        node.offset_ms.push(null);
        node.bound_ms.push(null);
      }
      if (latest(node) < 0) nodes.delete(instance);
    }
  }

  // The last point may still change: it is asked for again.
  function dropLast() {
    times.pop();
    for (const node of nodes.values()) {
      node.offset_ms.pop();
      node.bound_ms.pop();
    }
  }

  async function refresh(ask, now) {
    const wanted = Number(span.value);
    const whole = !times.length || Date.now() - loadedAt > Math.max(RELOAD_MS, wanted / 24);
    if (!whole) dropLast();
    const since = whole || !times.length ? Math.max(0, now - wanted) : times[times.length - 1];
    const answer = await ask(`/v1/skew/history?since=${since}`);
    if (wanted !== Number(span.value)) return; // chosen anew meanwhile
    if (whole) {
      times = [];
      nodes = new Map();
      loadedAt = Date.now();
    }
    interval = Math.max(1000, answer.interval_ms);
    append(answer);
    draw();
  }

  function choose() {
    const list = [...nodes.values()].filter((node) => latest(node) >= 0);
    list.sort((a, b) => (b.instance === chosen) - (a.instance === chosen) || b.present - a.present ||
      farthest(b) - farthest(a) || nodeName(a).localeCompare(nodeName(b)));
    // Lines keep their colours while the same workers are shown.
    return list.slice(0, LINES).sort((a, b) => (a.instance < b.instance ? -1 : 1));
  }

  function hull() {
    const low = empty(times.length), high = empty(times.length);
    for (const node of nodes.values()) {
      for (let i = 0; i < times.length; i++) {
        if (node.offset_ms[i] === null) continue;
        const least = node.offset_ms[i] - node.bound_ms[i], most = node.offset_ms[i] + node.bound_ms[i];
        if (low[i] === null || least < low[i]) low[i] = least;
        if (high[i] === null || most > high[i]) high[i] = most;
      }
    }
    return [low, high];
  }

  function options(lines) {
    const grid = { stroke: css('--line'), width: 1 };
    const axis = { stroke: css('--soft'), grid, ticks: grid, font: '12px system-ui, sans-serif' };
    const series = [{ label: 'Time' }, { label: 'least', width: 0, points: { show: false } },
      { label: 'most', width: 0, points: { show: false } }];
    const bands = [{ series: [2, 1], fill: css('--hull') }];
    lines.forEach((node, i) => {
      const colour = css(`--plot-${i}`);
      const at = series.length;
      series.push({ label: nodeName(node), stroke: colour, width: 1.75, dash: dashes[i], points: { show: times.length < FEW, size: 5 } },
        { label: 'low', width: 0, points: { show: false } }, { label: 'high', width: 0, points: { show: false } });
      bands.push({ series: [at + 2, at + 1], fill: fade(colour, 0.16) });
    });
    const asinh = compressed();
    const tens = (u, splits) => splits.map((value) => (value === 0 || Number.isInteger(Math.log10(Math.abs(value))) ? value : null));
    return {
      width: box.clientWidth, height: height(), series, bands,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: true }, y: asinh ? { distr: 4, asinh: 1 } : { range: (u, low, high) => roomy(low, high) } },
      axes: [{ ...axis, values: timeLabels }, { ...axis, size: 68, ...(asinh ? { filter: tens, grid: { ...grid, filter: tens }, ticks: { ...grid, filter: tens } } : {}), values: (u, splits) => splits.map((value) => (value === null ? '' : label(value))) }],
      hooks: { setCursor: [(u) => tell(u.cursor.idx)] },
    };
  }

  function height() {
    return innerWidth > WIDE ? 420 : 280;
  }

  // By itself when one clock is so far off that the others would be a line.
  function compressed() {
    if (scale.value !== 'auto') return scale.value === 'asinh';
    const sizes = [...nodes.values()].map(farthest).filter((size) => size >= 0).sort((a, b) => a - b);
    const middle = sizes[Math.floor(sizes.length / 2)] || 0;
    return sizes.length > 2 && sizes[sizes.length - 1] > 30 * Math.max(middle, 0.5);
  }

  // A millisecond at least, so that noise does not look like a storm.
  function roomy(low, high) {
    const middle = (low + high) / 2, half = Math.max((high - low) * 0.55, 0.5);
    return [middle - half, middle + half];
  }

  function label(value) {
    const size = Math.abs(value);
    if (size >= 1000) return Number((value / 1000).toPrecision(4)) + ' s';
    return Number(value.toPrecision(4)) + ' ms';
  }

  // What the legend says: at the cursor, or latest.
  let lines = [];
  let values = [];

  function tell(index) {
    lines.forEach((node, i) => {
      const at = index === null || index === undefined ? latest(node) : index;
      const offset = node.offset_ms[at];
      setText(values[i], offset === null || offset === undefined ? 'not heard' : `${signedMs(offset)} ${boundMs(node.bound_ms[at])}`);
    });
  }

  function drawLegend() {
    values = lines.map(() => element('span', 'value'));
    legend.replaceChildren(...lines.map((node, i) => {
      const item = element('li');
      item.append(element('span', `key key-${i}`), element('span', 'state', nodeName(node)), values[i]);
      return item;
    }));
    tell(null);
  }

  function sum() {
    if (!times.length) {
      setText(summary, 'No clock has been measured yet.');
      return;
    }
    const known = [...nodes.values()].filter((node) => node.present && latest(node) >= 0);
    // The newest point of one that answers may be a moment late.
    const heard = known.filter((node) => latest(node) >= times.length - 2).length;
    const widest = known.reduce((most, node) => Math.max(most, farthest(node)), 0);
    const rest = nodes.size - lines.length;
    setText(summary, `${heard < known.length ? `${heard} of ` : ''}${plural(known.length, 'clock')} heard; the farthest is ${sizeMs(widest)} from the reference.` +
      (rest > 0 ? ` The ${lines.length} lines are the farthest now; choose a worker to see it.` : ''));
  }

  function draw() {
    lines = choose();
    const data = [times.map((time) => time / 1000), ...hull()];
    for (const node of lines) {
      data.push(node.offset_ms, node.offset_ms.map((value, i) => (value === null ? null : value - node.bound_ms[i])),
        node.offset_ms.map((value, i) => (value === null ? null : value + node.bound_ms[i])));
    }
    const as = lines.map((node) => node.instance).join() + compressed() + document.documentElement.dataset.theme +
      css('--line') + (times.length < FEW);
    if (drawn && as === drawnAs) {
      drawn.setData(data);
      tell(null);
    } else {
      if (drawn) drawn.destroy();
      drawn = new uPlot(options(lines), data, box); // eslint-disable-line no-undef
      drawnAs = as;
      drawLegend();
    }
    sum();
  }

  new ResizeObserver(() => {
    if (drawn && box.clientWidth > 0 && box.clientWidth !== drawn.width) drawn.setSize({ width: box.clientWidth, height: height() });
  }).observe(box);
  document.addEventListener('themechange', () => drawn && draw());
  scale.addEventListener('change', () => drawn && draw());

  return {
    refresh,
    // How long until it is worth asking again.
    interval: () => Math.min(60000, Math.max(interval, 2000)),
    onSpan(changed) {
      span.addEventListener('change', () => {
        times = [];
        changed();
      });
    },
    fail(text) {
      if (!times.length) setText(summary, text);
    },
    select(instance) {
      chosen = instance || '';
      if (drawn) draw();
    },
  };
}

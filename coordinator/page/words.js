// How numbers and times read, and making elements.  Text from others only ever goes into textContent.

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Writes only what changed, so that a second's update of 500 rows touches little.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, className) {
  if (node.className !== className) node.className = className;
}

// No line break between a number and its unit.
const UNIT = '\u00a0';

export function duration(ms) {
  const s = Math.abs(ms) / 1000;
  if (s < 10) return s.toFixed(1) + UNIT + 's';
  if (s < 120) return s.toFixed(0) + UNIT + 's';
  if (s < 7200) return (s / 60).toFixed(0) + UNIT + 'min';
  if (s < 172800) return (s / 3600).toFixed(1) + UNIT + 'h';
  return (s / 86400).toFixed(1) + UNIT + 'days';
}

export function plural(n, one, many) {
  return n.toLocaleString('en') + ' ' + (n === 1 ? one : many || one + 's');
}

export function rate(perSecond) {
  if (perSecond === null) return '–';
  if (perSecond >= 999.5) return Math.round(perSecond).toLocaleString('en');
  return perSecond < 10 ? perSecond.toFixed(1) : perSecond.toFixed(0);
}

// "1.25 ms", with the digits that it takes to see it.
export function sizeMs(ms) {
  const size = Math.abs(ms);
  if (size >= 10000) return (size / 1000).toFixed(1) + UNIT + 's';
  return size.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3) + UNIT + 'ms';
}

export function signedMs(ms) {
  const size = sizeMs(ms);
  return (/[1-9]/.test(size) ? (ms < 0 ? '−' : '+') : '') + size;
}

export function boundMs(ms) {
  return '±' + UNIT + sizeMs(ms);
}

// "0-3, 7"
export function idList(ids) {
  const runs = [];
  for (const id of ids) {
    const last = runs[runs.length - 1];
    if (last && last[1] === id - 1) last[1] = id;
    else runs.push([id, id]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
}

export function workerName(worker) {
  return worker.identity || worker.instance.slice(0, 12);
}

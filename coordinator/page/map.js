// The map of the 1,024 machine IDs: a grid that one walks through with pointer or arrow keys.

import { duration, element, setClass, setText } from './words.js';

const COLUMNS = 32;
const MACHINE_IDS = 1024;

// In the order of the legend: the state's name, and what it means.
const states = {
  STUCK: 'held, but its horizon is past',
  HELD: 'a worker issues IDs on it',
  COOLING: 'given up; free when its quiet time is over',
  FREE: 'can be claimed',
  AHEAD: 'its horizon is far in the future; usable when real time passes it',
  ABSENT: 'no readable horizon in etcd; unusable',
  RESERVED: 'left out on purpose',
  OUT_OF_RANGE: 'outside the range that is given out',
  UNKNOWN: 'meta cannot be read',
};

function stateWord(state) {
  return state.toLowerCase().replaceAll('_', ' ');
}

export function createMap(onSelect) {
  const map = document.getElementById('map');
  const detail = document.getElementById('map-detail');
  const legend = document.getElementById('legend');
  const cells = [];
  const runs = new Array(MACHINE_IDS).fill(null);
  let current = 0; // the one in the tab order
  let shown = null; // the one that the line below tells of
  let highlighted = '';
  let pinned = false;

  for (let row = 0; row < MACHINE_IDS / COLUMNS; row++) {
    const line = element('div', 'map-row');
    line.setAttribute('role', 'row');
    for (let column = 0; column < COLUMNS; column++) {
      const id = row * COLUMNS + column;
      const cell = element('div', 'cell');
      cell.setAttribute('role', 'gridcell');
      cell.tabIndex = id === 0 ? 0 : -1;
      cell.dataset.id = id;
      cells.push(cell);
      line.append(cell);
    }
    map.append(line);
  }

  function describe(id) {
    const run = runs[id];
    if (!run) return `Machine ID ${id}`;
    const word = stateWord(run.state);
    if (run.state === 'HELD' || run.state === 'STUCK') {
      const holder = run.identity || run.instance || 'somebody unreadable';
      const lead = run.runway_ms === null ? 'no readable horizon'
        : run.runway_ms < 0 ? `its horizon is past since ${duration(run.runway_ms)}`
          : `runway ${duration(run.runway_ms)}`;
      return `Machine ID ${id}: ${word} by ${holder}, ${lead}`;
    }
    if (run.usable_in_ms !== undefined && run.usable_in_ms !== null)
      return `Machine ID ${id}: ${word}, free in ${duration(run.usable_in_ms)}`;
    return `Machine ID ${id}: ${word}, ${states[run.state] || ''}`;
  }

  function show(id) {
    shown = id;
    setText(detail, describe(id));
  }

  function highlight(instance) {
    highlighted = instance || '';
    for (let id = 0; id < MACHINE_IDS; id++)
      cells[id].classList.toggle('same', Boolean(instance) && runs[id]?.instance === instance);
  }

  function moveTo(id) {
    cells[current].tabIndex = -1;
    current = id;
    cells[current].tabIndex = 0;
  }

  function idOf(event) {
    const cell = event.target.closest('.cell');
    return cell ? Number(cell.dataset.id) : null;
  }

  map.addEventListener('pointerover', (event) => {
    const id = idOf(event);
    if (id !== null && !pinned) show(id);
  });
  map.addEventListener('focusin', (event) => {
    const id = idOf(event);
    if (id === null) return;
    moveTo(id);
    pinned = false;
    show(id);
  });
  map.addEventListener('click', (event) => {
    const id = idOf(event);
    if (id === null) return;
    cells[id].focus();
    pinned = true;
    show(id);
    onSelect(runs[id]?.instance || null);
  });
  map.addEventListener('pointerleave', () => {
    if (!pinned && document.activeElement?.closest('#map') === map) show(current);
  });
  map.addEventListener('keydown', (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS };
    let next = current;
    if (event.key in steps) next = current + steps[event.key];
    else if (event.key === 'Home') next = event.ctrlKey ? 0 : current - (current % COLUMNS);
    else if (event.key === 'End') next = event.ctrlKey ? MACHINE_IDS - 1 : current - (current % COLUMNS) + COLUMNS - 1;
    else if (event.key === 'Enter' || event.key === ' ') onSelect(runs[current]?.instance || null);
    else return;
    event.preventDefault();
    if (next >= 0 && next < MACHINE_IDS) cells[next].focus();
  });

  function updateLegend() {
    const counts = {};
    for (const run of runs) counts[run.state] = (counts[run.state] || 0) + 1;
    const items = Object.keys(states).filter((state) => counts[state]).map((state) => {
      const item = element('li');
      item.title = states[state];
      item.append(element('span', `cell swatch ${state}`), element('span', 'state', stateWord(state)),
        element('b', '', counts[state].toLocaleString('en')));
      return item;
    });
    legend.replaceChildren(...items);
  }

  return {
    update(machines) {
      for (const run of machines) {
        for (let id = run.first; id <= run.last; id++) {
          const same = highlighted && run.instance === highlighted ? ' same' : '';
          runs[id] = run;
          setClass(cells[id], `cell ${run.state}${same}`);
          const label = run.identity ? `${id}: ${stateWord(run.state)} by ${run.identity}` : `${id}: ${stateWord(run.state)}`;
          if (cells[id].ariaLabel !== label) cells[id].ariaLabel = label;
        }
      }
      updateLegend();
      if (shown === null) {
        const held = machines.find((run) => run.state === 'HELD' || run.state === 'STUCK');
        if (held) moveTo(held.first);
        show(current);
      } else {
        show(shown);
      }
    },
    highlight,
  };
}

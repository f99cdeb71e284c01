// The coordinator's page: asks, and shows.  It changes nothing.

import { createMap } from './map.js';
import { createPlot } from './plot.js';
import { createTable } from './workers.js';
import { duration, element, plural, setClass, setText } from './words.js';

const POLL_MS = 2000;
const HIDDEN_POLL_MS = 30000;
const SLOWEST_POLL_MS = 30000;
const ANSWER_MS = 8000; // a request that takes longer has failed
const OLD_MS = 10000; // older than that, it is said loudly

const byId = (id) => document.getElementById(id);

let fleet = null; // the last answer
let heardAt = 0; // by performance.now(): the wall clock may be stepped
let failures = 0;
let problem = '';
let timer = 0;
let nextAt = 0;
let asking = false;
let selected = null;
let historyAt = 0; // when to ask for it again

const map = createMap(select);
const table = createTable((instance) => select(instance === selected ? null : instance));
const plot = createPlot();

function select(instance) {
  selected = instance;
  map.highlight(instance);
  table.select(instance);
  plot.select(instance);
}

async function ask(path) {
  const giveUp = new AbortController();
  const limit = setTimeout(() => giveUp.abort(), ANSWER_MS);
  try {
    const answer = await fetch(path, { signal: giveUp.signal, cache: 'no-store' });
    if (!answer.ok) throw new Error(`it answers ${answer.status} to ${path}`);
    return await answer.json();
  } catch (error) {
    throw error.name === 'AbortError' ? new Error(`no answer within ${duration(ANSWER_MS)}`) : error;
  } finally {
    clearTimeout(limit);
  }
}

function later(ms) {
  clearTimeout(timer);
  nextAt = performance.now() + ms;
  timer = setTimeout(poll, ms);
}

function pause() {
  if (document.hidden) return HIDDEN_POLL_MS;
  if (!failures) return POLL_MS;
  // Many pages that lost the same coordinator do not come back in step.
  return Math.min(SLOWEST_POLL_MS, POLL_MS * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
}

async function poll() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const answer = await ask('/v1/fleet');
    // Another version answers now: its page goes with it.
    if (fleet && fleet.self.version !== answer.self.version) location.reload();
    fleet = answer;
    heardAt = performance.now();
    failures = 0;
    show();
  } catch (error) {
    failures++;
    problem = error.message;
  }
  asking = false;
  showAge();
  later(pause());
  if (!failures && performance.now() >= historyAt) askHistory();
}

async function askHistory() {
  historyAt = Infinity;
  try {
    await plot.refresh(ask, Number(fleet.now_ms));
    historyAt = performance.now() + plot.interval();
  } catch (error) {
    plot.fail(`The history cannot be read: ${error.message}.`);
    historyAt = performance.now() + 10000;
  }
}

plot.onSpan(() => {
  historyAt = 0;
  if (fleet) askHistory();
});

// ---- showing ----

function showAge() {
  const age = performance.now() - heardAt;
  const lost = failures > 0 && (failures > 1 || !fleet || age > OLD_MS);
  const old = fleet && age > OLD_MS + (document.hidden ? HIDDEN_POLL_MS : 0);
  byId('lost').hidden = !lost;
  document.body.classList.toggle('old', Boolean(lost || old));
  if (lost) {
    const wait = Math.max(0, Math.ceil((nextAt - performance.now()) / 1000));
    setText(byId('lost-text'), `${fleet ? `What is below is ${duration(age)} old.` : 'Nothing has been heard of it yet.'} ` +
      `The last try: ${problem}. ${asking ? 'Trying…' : `Next try in ${wait} s.`}`);
  }
  setText(byId('age'), !fleet ? (failures ? 'No answer yet' : 'Asking the coordinator…')
    : age < 3500 ? 'Up to date' : `${duration(age)} old`);
  setClass(byId('age'), lost || old ? 'bad' : '');
}

function fact(name, value, bad) {
  const pair = element('div', bad ? 'bad' : '');
  pair.append(element('dt', '', name), element('dd', '', value));
  return pair;
}

// Where a coordinator is to be found: never anything but a web address.
function linkTo(address) {
  try {
    return new URL(`${location.protocol}//${address}/`).href;
  } catch (unusable) {
    return null;
  }
}

function showFacts() {
  const heard = fleet.workers.filter((worker) => worker.heard);
  const oldest = heard.reduce((most, worker) => Math.max(most, worker.heard_ms_ago), 0);
  const total = heard.reduce((all, worker) => all + (worker.rate_per_s || 0), 0);
  const held = fleet.machines.filter((run) => run.state === 'HELD').length;
  const leader = !fleet.leader ? 'none' : fleet.self.leads ? 'this coordinator' : fleet.leader.http || fleet.leader.instance.slice(0, 12);
  byId('facts').replaceChildren(
    fact('Leader', leader, !fleet.leader),
    fact('Workers heard', `${heard.length} of ${fleet.workers.length}` + (heard.length ? `, each within ${duration(oldest)}` : ''), heard.length < fleet.workers.length),
    fact('Machine IDs held', held.toLocaleString('en')),
    fact('IDs issued', `${Math.round(total).toLocaleString('en')} a second`),
    fact('Clocks apart', fleet.clocks.heard ? `${fleet.clocks.at_most_ms.toFixed(1)} ms at most` : 'not measured'),
    fact('Ceiling', fleet.ceiling_lead_s === null ? (fleet.era ? 'none set' : 'unknown')
      : fleet.ceiling_lead_s < 0 ? `passed ${duration(fleet.ceiling_lead_s * 1000)} ago` : `${duration(fleet.ceiling_lead_s * 1000)} ahead`,
    fleet.ceiling_lead_s !== null && fleet.ceiling_lead_s < 3600),
    fact('etcd', fleet.etcd.reachable ? 'answers' : 'does not answer', !fleet.etcd.reachable),
  );
}

function wellText() {
  const heard = fleet.workers.filter((worker) => worker.heard).length;
  return heard === 0 ? 'Nothing is wrong, and no worker is there' : 'All is well';
}

function showAlarms() {
  const critical = fleet.alarms.filter((alarm) => alarm.severity === 'critical').length;
  const warnings = fleet.alarms.length - critical;
  const parts = [];
  if (critical) parts.push(`${critical} critical`);
  if (warnings) parts.push(plural(warnings, 'warning'));
  const text = parts.join(', ') || wellText();
  setText(byId('verdict-title'), text);
  setClass(byId('verdict'), critical ? 'critical' : warnings ? 'warning' : 'well');
  document.title = `${critical ? '✖ ' : warnings ? '▲ ' : ''}${text}: Snowfleet ${fleet.cluster}`;
  const list = byId('alarms');
  const said = JSON.stringify(fleet.alarms);
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  list.replaceChildren(...fleet.alarms.map((alarm) => {
    const item = element('li', `alarm ${alarm.severity}`);
    item.append(element('span', 'severity', alarm.severity), element('p', 'text', alarm.text), element('p', 'meaning', alarm.meaning));
    return item;
  }));
}

function showStandby() {
  const line = byId('standby');
  const key = fleet.self.leads ? '' : JSON.stringify(fleet.leader);
  line.hidden = fleet.self.leads || !fleet.leader;
  if (line.hidden || line.dataset.key === key) return;
  line.dataset.key = key;
  const link = fleet.leader.http && linkTo(fleet.leader.http);
  const where = element(link ? 'a' : 'span', '', fleet.leader.http || fleet.leader.instance);
  if (link) where.href = link;
  line.replaceChildren('This coordinator stands by, and shows what it sees itself. The leader is ', where, '.');
}

function show() {
  setText(byId('cluster'), fleet.cluster);
  setText(byId('workers-title'), `Workers (${fleet.workers.length.toLocaleString('en')})`);
  showAlarms();
  showFacts();
  showStandby();
  map.update(fleet.machines);
  table.update(fleet.workers);
  setText(byId('about'), `Snowfleet ${fleet.self.version}, coordinator ${fleet.self.instance.slice(0, 12)} (${fleet.self.state})` +
    (fleet.era ? `, era ${fleet.era.slice(0, 12)}` : '') + '.');
}

byId('retry').addEventListener('click', poll);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) poll();
});
addEventListener('online', poll);
setInterval(showAge, 1000);
poll();

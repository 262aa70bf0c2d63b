'use strict';
// base.js - what every script of a page uses: elements, figures, colours by meaning. All text of a document reaches the page
// as text nodes and attribute values, never as markup.

// ---- elements ----

// el('td', {class: 'n', title: name}, 'text', child, ...). A function as a value listens: {click: f}.
function build(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') node.addEventListener(key, value);
    else if (key === 'style') Object.assign(node.style, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return node;
}
const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  build(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// Characters that control or reorder text would make a name look like another one.
const clean = name => String(name).replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, '?');
const base = path => clean(path).replace(/\/+$/, '').split('/').slice(/\/config\.json$/.test(path) ? -2 : -1).join('/');
// Lines break behind a dot rather than inside of a word.
const nameOf = text => el('span', {class: 'name'}, clean(text).split(/(?<=[._/])/).map((part, k) => k === 0 ? part : [el('wbr'), part]));

// ---- figures ----

const isNumber = x => typeof x === 'number' && Number.isFinite(x);
const count = n => isNumber(n) ? Math.round(n).toLocaleString('en-US') : '–';
const percent = (part, whole = 1) => {
  const x = isNumber(part) ? 100 * part / whole : NaN; // null is no number
  return !isNumber(x) ? '–' : x === 0 || x >= 99.95 ? Math.round(x) + ' %' : x < 0.1 ? '< 0.1 %' : x.toFixed(1) + ' %';
};
function scaled(n, step, units) {
  let k = 0;
  while (Math.abs(n) >= step * 0.9995 && k < units.length - 1) { n /= step; k++; }
  return (k === 0 ? String(n) : Math.abs(n) < 9.995 ? n.toFixed(2) : Math.abs(n) < 99.95 ? n.toFixed(1) : n.toFixed(0)) + ' ' + units[k];
}
const bytes = n => isNumber(n) ? scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) : '–';
const short = n => !isNumber(n) ? '–' : n < 10000 ? count(n) : scaled(n, 1000, ['', 'K', 'M', 'G', 'T', 'P']);
const real = x => !isNumber(x) ? '–' : x === 0 ? '0' : Math.abs(x) >= 1e-4 && Math.abs(x) < 1e6 ? String(+x.toPrecision(3)) : x.toExponential(1);
const decibel = x => isNumber(x) ? x.toFixed(1) + ' dB' : '–';
const sqnr = m => !m ? '–' : m.exact ? 'exact' : decibel(m.sqnr_db);
const times = x => isNumber(x) ? (x < 10 ? x.toFixed(2) : x.toFixed(1)) + '×' : '–';
const shape = dims => dims.length === 0 ? 'scalar' : dims.map(clean).join('×');
const plural = (n, word) => count(n) + ' ' + word + (n === 1 ? '' : 's');

// ---- colours by meaning: classes of page.css ----

// Error: the RMS of the change by the RMS of the values, as in the drawing of sensitivity. An SQNR is the same figure in dB.
const errorLimits = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3, 0.5, 0.7];
const errorLabels = ['.01', '.03', '.1', '.3', '1', '3', '10', '20', '30', '50', '70', 'more'];
const errorClass = relative => {
  if (!isNumber(relative)) return 'none';
  const k = errorLimits.findIndex(limit => relative <= limit);
  return 'e' + (k < 0 ? errorLimits.length : k);
};
const relativeOf = measured => !measured ? NaN : measured.exact ? 0 : 10 ** (-measured.sqnr_db / 20);
const zeroClass = share => isNumber(share) ? 'z' + Math.min(7, Math.floor(share * 8)) : 'none';
const zeroLabels = ['0', '', '25', '', '50', '', '75', 'more'];

// Types and components have one colour each, on every page.
const kinds = {
  f32: 0, parameters: 0, weights: 0, f16: 7, bf16: 2, gradients: 2, i8: 1, activations: 1, optimizer: 3, scales: 3,
  teacher: 4, i4: 4, master: 6, f64: 6, kv_cache: 7, transient: 5, other: 5, inputs: 12, u8: 12, workspace: 8, context: 9,
  slack: 10, communication: 4,
};
const kindClass = name => {
  if (name in kinds) return 'k' + kinds[name];
  let sum = 0;
  for (const c of String(name)) sum = (sum * 31 + c.codePointAt(0)) % 11;
  return 'k' + sum;
};
const componentNames = {
  parameters: 'weights', optimizer: 'optimizer states', master: 'master weights', kv_cache: 'cache of keys and values',
  transient: 'values of a moment', workspace: 'workspace of libraries', context: 'runtime of the device',
  slack: 'fragmentation', teacher: 'teacher',
};
const componentName = key => componentNames[key] || key.replace(/_/g, ' ');
const swatch = kind => el('i', {class: 'swatch ' + kind, 'aria-hidden': 'true'});

const verdictLooks = {
  fits: ['yes', '✓ fits'], 'weights fit': ['yes', '✓ weights fit'], tight: ['near', '~ tight'], 'does not fit': ['no', '✕ does not fit'],
  no: ['no', '✕ no'], unknown: ['maybe', '? unknown'], 'smaller fits': ['near', '~ smaller fits'],
  'some layers fit': ['near', '~ some layers fit'],
};
const badge = (look, text) => el('span', {class: 'badge ' + look}, text);
const verdict = word => badge(...(verdictLooks[word] || ['maybe', clean(word)]));
const headroom = n => bytes(Math.abs(n)) + (n < 0 ? ' short' : ' left');

// ---- parts of a page ----

const page = () => document.getElementById('page');
function section(title, lead, ...children) {
  const node = el('section', {}, title && el('h2', {}, title), lead && el('p', {class: 'lead'}, lead), children);
  page().append(node);
  return node;
}
// [[label, value, note], ...]; nothing for rows whose value is missing.
const tiles = list => el('dl', {class: 'tiles'}, list.filter(([, value]) => value !== null && value !== undefined && value !== '–')
  .map(([label, value, note]) => el('div', {}, el('dt', {}, label), el('dd', {}, value, note && el('small', {}, note)))));
const note = (...children) => el('p', {class: 'note'}, children);
const scroll = (label, child) => el('div', {class: 'scroll', role: 'region', tabindex: 0, 'aria-label': label}, child);
// The figure that a page is about, with what it means beside it; an answer looks like yes, near, no or maybe.
const hero = (look, figure, meaning, ...beside) => el('div', {class: 'hero'},
  el('div', {}, el('p', {class: 'big ' + look}, figure), el('p', {class: 'about'}, meaning)), el('div', {class: 'beside'}, beside));

// A line that can be copied.
function command(line) {
  const button = el('button', {class: 'copy', type: 'button', click: copy}, 'copy');
  const code = el('code', {}, clean(line));
  async function copy() {
    try {
      await navigator.clipboard.writeText(line);
    } catch (refused) {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand('copy');
    }
    button.textContent = 'copied';
    setTimeout(() => { button.textContent = 'copy'; }, 1500);
  }
  return el('div', {class: 'command'}, code, button);
}

// A small table that is shown whole: heads begin with '>' where figures stand.
function plainTable(label, heads, rows) {
  const right = heads.map(head => head.startsWith('>'));
  return scroll(label, el('table', {'aria-label': label},
    el('thead', {}, el('tr', {}, heads.map((head, k) => el('th', {scope: 'col', class: right[k] ? 'n' : null}, head.replace(/^>/, ''))))),
    el('tbody', {}, rows.map(cells => el('tr', {}, cells.map((cell, k) =>
      k === 0 ? el('th', {scope: 'row'}, cell) : el('td', {class: right[k] ? 'n' : null}, cell)))))));
}

// Where several outputs have a task: the figure of each, a column for each [name, quality]. Nothing of one output.
function outputsTable(judged) {
  const outputs = judged.map(([, quality]) => quality.outputs).find(list => list && list.length > 0) || [];
  return outputs.length > 0 && plainTable('figures of the outputs', ['output', 'task', 'figure', ...judged.map(([name]) => '>' + name)],
    outputs.map((part, k) => [clean(part.output), part.task, part.metric, ...judged.map(([, quality]) => real(quality.outputs && quality.outputs[k] ? quality.outputs[k].value : null))]));
}

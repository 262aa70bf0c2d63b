'use strict';
// table.js - a table to explore: search, globs, sorting, groups of similar names that open. Rows are made when they are
// reached, so that ten thousand of them cost nothing; all of them are there before the page is printed.

const PORTION = 150;

// The globs of the command line: * ? [a-z] [!a-z] and \. Null: the text is no glob.
function globOf(text) {
  if (!/[*?[]/.test(text)) return null;
  let source = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    const end = c === '[' ? text.indexOf(']', i + 2) : -1;
    if (c === '*') source += '.*';
    else if (c === '?') source += '.';
    else if (end > 0) {
      source += text.slice(i, end + 1).replace(/^\[!/, '[^').replace(/\\/g, '\\\\');
      i = end;
    } else source += (c === '\\' && i + 1 < text.length ? text[++i] : c).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  }
  try { return new RegExp('^' + source + '$', 's'); } catch (wrong) { return null; }
}

// "model.layers.12.w" -> "model.layers.*.w"
const patternOf = name => name.replace(/(^|[._:/-])\d+(?=$|[._:/-])/g, '$1*');

// How a group of rows looks in a column: what they share, their sum, their worst.
const folds = {
  same: values => {
    const alike = values.map(value => typeof value === 'string' ? patternOf(value) : value);
    return values.every(value => value === values[0]) ? values[0] : alike.every(value => value === alike[0]) ? alike[0] : null;
  },
  sum: values => values.reduce((sum, value) => sum + (isNumber(value) ? value : 0), 0),
  least: values => values.reduce((least, value) => isNumber(value) && !(least <= value) ? value : least, NaN),
  most: values => values.reduce((most, value) => isNumber(value) && !(most >= value) ? value : most, NaN),
};

// options: {label, rows, name: row => string, columns: [{title, value, show, fold, figure, look, long}], grouped, sorted,
// sub: row => further text under a name}. value: row => number or string; show: (value, row) => what stands in the cell;
// look: (value, row) => class of the cell. Returns {node, search}.
function explorer(options) {
  const {rows, columns} = options;
  const names = rows.map(options.name);
  const patterns = names.map(patternOf);
  const all = rows.map((_, i) => i);
  const groupable = options.grouped !== false && new Set(patterns).size < 0.7 * rows.length;
  const state = {query: '', by: options.sorted ? options.sorted[0] : -1, down: options.sorted ? options.sorted[1] : false,
    grouped: groupable && rows.length > 24, open: new Set(), shown: PORTION};
  let lines = [];

  const input = el('input', {type: 'search', placeholder: 'search, or a glob: *.mlp.*', 'aria-label': 'search in ' + options.label,
    spellcheck: 'false', autocomplete: 'off', input: () => { state.query = input.value; state.shown = PORTION; draw(); }});
  const told = el('span', {class: 'told', role: 'status'});
  const box = el('input', {type: 'checkbox', checked: state.grouped, change: () => {
    state.grouped = box.checked; state.shown = PORTION; draw(); }});
  const body = el('tbody', {});
  const more = el('button', {type: 'button', class: 'more', click: () => { state.shown += 10 * PORTION; draw(); }});
  const heads = columns.map((column, k) => el('th', {scope: 'col', class: column.figure ? 'n' : column.tall ? 'tall' : null},
    el('button', {type: 'button', click: () => sortBy(k)}, el('span', {}, column.title))));
  const first = el('th', {scope: 'col'}, el('button', {type: 'button', click: () => sortBy(-2)}, el('span', {}, options.head || 'tensor')));
  const node = el('div', {class: 'explorer'},
    el('div', {class: 'tools'}, input, groupable && el('label', {}, box, ' group similar names'), told),
    scroll(options.label, el('table', {'aria-label': options.label}, el('thead', {}, el('tr', {}, first, heads)), body)), more);

  // Figures begin with the largest, names with the first; a third click goes back to the order of the file.
  function sortBy(k) {
    const begins = k >= 0 && Boolean(columns[k].figure || columns[k].tall);
    if (state.by !== k) { state.by = k; state.down = begins; }
    else if (state.down === begins) state.down = !begins;
    else state.by = -1;
    draw();
  }

  function valueOf(line, k) {
    if (k === -2) return line.label;
    if (!(k in line.values)) {
      const values = line.members.map(i => columns[k].value(rows[i]));
      line.values[k] = values.length === 1 ? values[0] : folds[columns[k].fold || 'same'](values);
    }
    return line.values[k];
  }

  function compare(a, b) {
    const x = valueOf(a, state.by), y = valueOf(b, state.by);
    const lost = z => z === null || z === undefined || (typeof z === 'number' && Number.isNaN(z));
    if (lost(x) || lost(y)) return lost(x) - lost(y);
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true});
    return state.down ? -order : order;
  }

  function gather() {
    const glob = globOf(state.query), wanted = state.query.toLowerCase();
    const found = state.query === '' ? all : all.filter(i => glob ? glob.test(names[i]) : names[i].toLowerCase().includes(wanted));
    const single = i => ({label: names[i], members: [i], values: {}});
    let list;
    if (state.grouped) {
      const groups = new Map();
      for (const i of found) {
        const key = patterns[i] + '\n' + (options.kind ? options.kind(rows[i]) : '');
        if (!groups.has(key)) groups.set(key, {label: patterns[i], key, members: [], values: {}});
        groups.get(key).members.push(i);
      }
      list = [...groups.values()].map(group => group.members.length === 1 ? single(group.members[0]) : group);
    } else list = found.map(single);
    if (state.by !== -1) list.sort(compare);
    told.textContent = found.length === rows.length ? plural(rows.length, options.unit || 'tensor') : `${count(found.length)} of ${count(rows.length)}`;
    return list;
  }

  function cellsOf(line) {
    return columns.map((column, k) => {
      const value = valueOf(line, k), row = rows[line.members[0]];
      const shown = value === null || value === undefined || (typeof value === 'number' && Number.isNaN(value)) ? column.tall ? '–' : ''
        : column.show ? column.show(value, row, line.members.length) : typeof value === 'number' ? count(value) : clean(value);
      const look = column.look ? column.look(value, row) : '';
      return el('td', {class: ((column.figure ? 'n ' : '') + (column.long ? 'why ' : '') + look).trim() || null}, shown);
    });
  }

  function rowOf(line, inside) {
    const group = line.members.length > 1;
    const open = group && state.open.has(line.key);
    const label = group
      ? el('button', {type: 'button', class: 'open', 'aria-expanded': String(open), click: () => toggle(line)},
        nameOf(line.label), el('span', {class: 'sub'}, ' ×' + count(line.members.length)))
      : [nameOf(line.label), options.sub && options.sub(rows[line.members[0]])];
    return el('tr', {class: inside ? 'inside' : null}, el('th', {scope: 'row', class: line.label.length > 64 ? 'wraps' : null}, label), cellsOf(line));
  }

  function toggle(line) {
    if (!state.open.delete(line.key)) state.open.add(line.key);
    draw(line.key);
  }

  function draw(focus) {
    const parts = [];
    let left = state.shown, n = 0;
    lines = gather();
    for (const line of lines) {
      n++;
      if (left <= 0) { n--; break; }
      left--;
      parts.push(rowOf(line, false));
      if (line.members.length > 1 && state.open.has(line.key)) {
        const members = line.members.map(i => ({label: names[i], members: [i], values: {}}));
        if (state.by !== -1) members.sort(compare);
        for (const member of members) parts.push(rowOf(member, true));
        left -= members.length;
      }
    }
    body.replaceChildren(...parts);
    more.hidden = n >= lines.length;
    more.textContent = `${count(lines.length - n)} more`;
    [first, ...heads].forEach((head, k) => {
      const on = state.by === (k === 0 ? -2 : k - 1);
      head.setAttribute('aria-sort', !on ? 'none' : state.down ? 'descending' : 'ascending');
    });
    if (focus) {
      const at = lines.findIndex(line => line.key === focus);
      const buttons = body.querySelectorAll('button.open');
      for (const button of buttons) if (at >= 0 && button.textContent.startsWith(clean(lines[at].label))) { button.focus(); break; }
    }
  }

  function search(text) {
    input.value = state.query = text;
    state.shown = PORTION;
    draw();
    node.scrollIntoView({block: 'start'});
  }

  if ('IntersectionObserver' in window) {
    new IntersectionObserver(seen => {
      if (seen.some(one => one.isIntersecting) && !more.hidden) { state.shown += PORTION; draw(); }
    }, {rootMargin: '600px'}).observe(more);
  }
  let before = null;
  addEventListener('beforeprint', () => {
    before = {shown: state.shown, open: state.open};
    state.shown = Infinity;
    state.open = {has: () => true, add() {}, delete: () => true};
    draw();
  });
  addEventListener('afterprint', () => { if (before) { Object.assign(state, before); before = null; draw(); } });
  draw();
  return {node, search};
}

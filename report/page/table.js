'use strict';
// table.js - a table to explore: search, globs, sorting, groups of similar names that open. Of a long table the rows near the
// window alone are there, between two empty ones as high as all others, so that ten thousand of them cost nothing. Printed
// are the first thousand, and how many are not.

const WHOLE = 400; // rows of a table that is there as a whole
const MARGIN = 900; // pixels beyond the window for which rows are there
const PRINTED = 1000;

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

const natural = (a, b) => String(a).localeCompare(String(b), 'en', {numeric: true});

// The order of the file, but for numbers: names that differ in their numbers alone take their places by these, so that layer 2
// comes before layer 10. Numbers of rows.
function inNumberOrder(names, patterns) {
  const places = new Map();
  patterns.forEach((pattern, i) => places.has(pattern) ? places.get(pattern).push(i) : places.set(pattern, [i]));
  const order = [];
  for (const list of places.values()) [...list].sort((a, b) => natural(names[a], names[b])).forEach((row, k) => { order[list[k]] = row; });
  return order;
}

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
  const all = inNumberOrder(names, patterns);
  const groupable = options.grouped !== false && new Set(patterns).size < 0.7 * rows.length;
  const [firstBy, firstDown] = options.sorted || [-1, false]; // the order that the table begins with
  const state = {query: '', by: firstBy, down: firstDown, grouped: groupable && rows.length > 24, open: new Set(), chosen: false, printing: false};
  let lines = [], flat = [], from = 0, to = 0, height = 30; // flat: lines, and members of open groups; from, to: of it, what is there

  const input = el('input', {type: 'search', placeholder: 'search, or a glob: *.mlp.*', 'aria-label': 'search in ' + options.label,
    spellcheck: 'false', autocomplete: 'off', input: () => { state.query = input.value; draw(); }});
  const told = el('span', {class: 'told', role: 'status'});
  const box = el('input', {type: 'checkbox', checked: state.grouped, change: () => {
    state.grouped = box.checked; draw(); }});
  const body = el('tbody', {});
  const left = el('p', {class: 'note', hidden: true});
  const heads = columns.map((column, k) => el('th', {scope: 'col', class: column.figure ? 'n' : column.tall ? 'tall' : null},
    el('button', {type: 'button', click: () => sortBy(k)}, el('span', {}, column.title))));
  const first = el('th', {scope: 'col'}, el('button', {type: 'button', click: () => sortBy(-2)}, el('span', {}, options.head || 'tensor')));
  const node = el('div', {class: options.heats ? 'explorer heats' : 'explorer'},
    el('div', {class: 'tools'}, input, groupable && el('label', {}, box, ' group similar names'), told),
    scroll(options.label, el('table', {'aria-label': options.label}, el('thead', {}, el('tr', {}, first, heads)), body)), left);

  // Figures begin with the largest, names with the first; a third click goes back to the order of the beginning.
  function sortBy(k) {
    const begins = k >= 0 && Boolean(columns[k].figure || columns[k].tall);
    if (!state.chosen || state.by !== k) Object.assign(state, {by: k, down: begins, chosen: true});
    else if (state.down === begins) state.down = !begins;
    else Object.assign(state, {by: firstBy, down: firstDown, chosen: false});
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
    const order = typeof x === 'number' && typeof y === 'number' ? x === y ? 0 : x - y : natural(x, y);
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

  // The lines in their order; members of an open group by their numbers, or as somebody has sorted them.
  function draw(focus) {
    lines = gather();
    flat = lines.flatMap(line => {
      const one = [{line, inside: false}];
      if (line.members.length < 2 || !state.printing && !state.open.has(line.key)) return one;
      const members = line.members.map(i => ({label: names[i], members: [i], values: {}}));
      if (state.chosen) members.sort(compare);
      return one.concat(members.map(member => ({line: member, inside: true})));
    });
    from = to = -1;
    place();
    [first, ...heads].forEach((head, k) => {
      const on = state.by === (k === 0 ? -2 : k - 1);
      head.setAttribute('aria-sort', !on ? 'none' : state.down ? 'descending' : 'ascending');
    });
    if (focus) {
      const at = lines.find(line => line.key === focus);
      const buttons = body.querySelectorAll('button.open');
      for (const button of buttons) if (at && button.textContent.startsWith(clean(at.label))) { button.focus({preventScroll: true}); break; }
    }
  }

  // Makes the rows that are near the window; all where there are few.
  function place() {
    const n = flat.length, whole = n <= WHOLE || state.printing;
    let begin = 0, end = Math.min(n, state.printing ? PRINTED : n);
    if (!whole) {
      const top = body.getBoundingClientRect().top;
      begin = Math.max(0, Math.min(n - 1, Math.floor((-top - MARGIN) / height)));
      end = Math.min(n, begin + Math.ceil((innerHeight + 2 * MARGIN) / height));
      if (from >= 0 && begin >= from && end <= to && to - from < 3 * (end - begin)) return; // what is there is enough
      begin = Math.max(0, begin - 20);
      end = Math.min(n, end + 20);
    }
    if (begin === from && end === to) return;
    from = begin;
    to = end;
    const gap = count => el('tr', {class: 'gap', 'aria-hidden': 'true'}, el('td', {colspan: columns.length + 1, style: {height: count * height + 'px'}}));
    const made = flat.slice(from, to).map(one => rowOf(one.line, one.inside));
    body.replaceChildren(...[from > 0 && gap(from), ...made, to < n && !state.printing && gap(n - to)].filter(Boolean));
    if (!whole && made.length > 0) height = Math.max(16, made.reduce((sum, row) => sum + row.offsetHeight, 0) / made.length);
    left.hidden = !(state.printing && to < n);
    left.textContent = `${count(n - to)} of ${plural(n, 'row')} are not printed: search for a part of the names first, or save the document.`;
  }

  function search(text) {
    input.value = state.query = text;
    draw();
    node.scrollIntoView({block: 'start'});
  }

  addEventListener('scroll', place, {passive: true});
  addEventListener('resize', place);
  addEventListener('beforeprint', () => { state.printing = true; draw(); });
  addEventListener('afterprint', () => { state.printing = false; draw(); });
  draw();
  return {node, search};
}

'use strict';
// network.js - the nodes of a graph as a drawing to move in: zoom, pan, search, and one node with its neighbours. Only what is in
// the window is drawn: far away boxes alone, near ones with their words.
//
//   rank 0      [input ids]            a node lies below all that it reads; among those of its rank near what it reads
//   rank 1      [Gather    ]──╮        lines of a value that skips ranks pass beside the boxes between
//   rank 2   [RMSNorm] [..]   │

const BOX = {width: 200, height: 38, gap: 22, rank: 66};
const FAR = 14; // ranks

// Places of the nodes in `list`: {x, y} of each, ranks of nodes, and the size of all. before(k): what node k reads.
function ranked(list, before) {
  const depth = new Map(), ranks = [], places = new Map();
  for (const k of list) {
    const d = Math.max(-1, ...before(k).map(j => depth.has(j) ? depth.get(j) : -1)) + 1;
    depth.set(k, d);
    (ranks[d] = ranks[d] || []).push(k);
  }
  const step = BOX.width + BOX.gap;
  let left = 0, right = 0;
  ranks.forEach((rank, d) => {
    const wish = new Map(rank.map(k => {
      const from = before(k).filter(j => places.has(j)).map(j => places.get(j).x);
      return [k, from.length > 0 ? from.reduce((a, b) => a + b, 0) / from.length : 0];
    }));
    rank.sort((a, b) => wish.get(a) - wish.get(b));
    const middle = rank.reduce((sum, k) => sum + wish.get(k), 0) / rank.length;
    rank.forEach((k, i) => {
      const x = middle + (i - (rank.length - 1) / 2) * step;
      places.set(k, {x, y: d * BOX.rank});
      left = Math.min(left, x - BOX.width / 2); right = Math.max(right, x + BOX.width / 2);
    });
  });
  return {places, ranks, left, right, bottom: (ranks.length - 1) * BOX.rank + BOX.height};
}

function networkView(nodes, options) {
  const {titleOf, shapeOf, weightsOf, classOf} = options;
  const maker = new Map(), reads = [], users = nodes.map(() => []);
  nodes.forEach((node, k) => node.outputs.forEach(value => value !== null && maker.set(value, k)));
  nodes.forEach((node, k) => {
    reads.push([...new Set(node.inputs.filter(value => maker.has(value)).map(value => maker.get(value)))]);
    reads[k].forEach(j => users[j].push(k));
  });
  const texts = nodes.map((node, k) => `${node.op} ${titleOf(node)} ${weightsOf(node)}`.toLowerCase());
  const state = {x: 0, y: 0, scale: 1, picked: -1, near: 0, found: [], at: -1};
  let laid = ranked(nodes.map((_, k) => k), k => reads[k]);
  let waiting = false;

  const input = el('input', {type: 'search', placeholder: 'search: an operator, a value, a weight', 'aria-label': 'search in the network', spellcheck: 'false', autocomplete: 'off',
    input: search, keydown: event => { if (event.key === 'Enter') { event.preventDefault(); next(event.shiftKey ? -1 : 1); } }});
  const told = el('span', {class: 'told', role: 'status'});
  const reach = el('select', {'aria-label': 'what is shown', change: () => { state.near = Number(reach.value); relay(); }},
    [['0', 'all nodes'], ['1', 'the node and its neighbours'], ['2', 'two steps around it'], ['4', 'four steps around it']].map(([value, text]) => el('option', {value}, text)));
  const button = (text, label, action) => el('button', {type: 'button', class: 'small', 'aria-label': label, title: label, click: action}, text);
  const picked = el('div', {class: 'picked', role: 'status'});
  const scene = svg('svg', {class: 'network', width: '100%', height: '100%', 'aria-hidden': 'true'});
  const stage = el('div', {class: 'stage', tabindex: 0, role: 'group', 'aria-label': 'the network, arrows move, plus and minus zoom, 0 shows all, Enter picks', keydown: keys});
  stage.append(scene);
  const node = el('div', {class: 'networks'}, el('div', {class: 'tools'}, input, reach, button('+', 'nearer', () => zoom(1.4)), button('−', 'farther', () => zoom(1 / 1.4)),
    button('whole', 'all of it in the window', whole), told), stage, picked);

  // ---- what is shown ----

  const size = () => ({width: stage.clientWidth || 600, height: stage.clientHeight || 480});
  const shown = k => laid.places.has(k);

  function draw() {
    waiting = false;
    const {width, height} = size(), s = state.scale;
    const top = -state.y / s, low = (height - state.y) / s, left = -state.x / s, right = (width - state.x) / s;
    const near = new Set(state.picked < 0 ? [] : [state.picked, ...reads[state.picked], ...users[state.picked]]);
    const inside = [], boxes = {w: '', f: '', m: ''};
    const first = Math.max(0, Math.floor((top - BOX.height) / BOX.rank)), last = Math.min(laid.ranks.length - 1, Math.ceil(low / BOX.rank));
    for (let d = first; d <= last; d++) for (const k of laid.ranks[d]) {
      const {x, y} = laid.places.get(k);
      if (x + BOX.width / 2 < left || x - BOX.width / 2 > right) continue;
      inside.push(k);
      boxes[classOf(nodes[k])] += `M${x - BOX.width / 2} ${y}h${BOX.width}v${BOX.height}h${-BOX.width}z`;
    }
    let lines = '', strong = '';
    for (const [k, to] of laid.places) for (const j of reads[k]) {
      const from = laid.places.get(j);
      if (!from || from.y > low || to.y < top) continue;
      const mine = k === state.picked || j === state.picked;
      if (!mine && to.y - from.y > FAR * BOX.rank) { // a value for many layers: both of its ends
        lines += `M${from.x} ${from.y + BOX.height}v14M${to.x} ${to.y - 14}v14`;
        continue;
      }
      const y = from.y + BOX.height, beside = to.y - from.y > BOX.rank * 1.5 ? BOX.width * 0.62 : 0;
      const line = beside === 0 ? `M${from.x} ${y}L${to.x} ${to.y}` : `M${from.x + BOX.width * 0.3} ${y}C${from.x + beside} ${y + 40} ${to.x + beside} ${to.y - 40} ${to.x + BOX.width * 0.3} ${to.y}`;
      if (mine) strong += line; else lines += line;
    }
    const words = s < 0.5 ? [] : inside.filter(k => near.size === 0 || near.has(k) || state.near > 0).map(k => {
      const {x, y} = laid.places.get(k), at = x - BOX.width / 2 + 12;
      return [svg('text', {x: at, y: y + 16, class: 'op'}, cut(nodes[k].op, 28)), svg('text', {x: at, y: y + 30}, cut(shapeOf(nodes[k]), 32))];
    });
    const marks = [...near].filter(shown).map(k => svg('rect', {x: laid.places.get(k).x - BOX.width / 2 - 2, y: laid.places.get(k).y - 2, width: BOX.width + 4, height: BOX.height + 4, rx: 5,
      class: k === state.picked ? 'mark' : 'beside'}));
    scene.replaceChildren(svg('g', {transform: `translate(${state.x} ${state.y}) scale(${s})`}, svg('path', {class: 'lines', d: lines}), svg('path', {class: 'strong', d: strong}),
      Object.entries(boxes).map(([look, d]) => svg('path', {class: 'box n-' + look, d})), marks, words));
  }
  const again = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const cut = (text, n) => { const all = clean(text); return all.length > n ? all.slice(0, n - 1) + '…' : all; };

  // Some of the drawing stays in the window.
  function hold() {
    const {width, height} = size(), s = state.scale;
    state.x = Math.min(width - 60 - laid.left * s, Math.max(60 - laid.right * s, state.x));
    state.y = Math.min(height - 40, Math.max(40 - laid.bottom * s, state.y));
    again();
  }
  function zoom(factor, at) {
    const {width, height} = size(), x = at ? at.x : width / 2, y = at ? at.y : height / 2;
    const scale = Math.min(2.5, Math.max(0.004, state.scale * factor)), by = scale / state.scale;
    Object.assign(state, {scale, x: x - (x - state.x) * by, y: y - (y - state.y) * by});
    hold();
  }
  function whole() {
    const {width, height} = size();
    state.scale = Math.min(1, width / (laid.right - laid.left + 40), height / (laid.bottom + 40));
    Object.assign(state, {x: width / 2 - (laid.left + laid.right) / 2 * state.scale, y: Math.max(20 * state.scale, (height - laid.bottom * state.scale) / 2)});
    again();
  }
  function show(k) {
    const {width, height} = size(), place = laid.places.get(k);
    if (!place) return;
    state.scale = Math.max(state.scale, Math.min(1, width / (BOX.width * 1.3)));
    Object.assign(state, {x: width / 2 - place.x * state.scale, y: height / 2 - (place.y + BOX.height / 2) * state.scale});
    again();
  }
  // The nodes at most state.near steps from the picked one, or all.
  function relay() {
    let list = nodes.map((_, k) => k);
    if (state.near > 0 && state.picked >= 0) {
      const inside = new Set([state.picked]);
      for (let step = 0; step < state.near; step++) for (const k of [...inside]) for (const j of [...reads[k], ...users[k]]) inside.add(j);
      list = [...inside].sort((a, b) => a - b);
    }
    laid = ranked(list, k => reads[k]);
    if (state.picked >= 0) show(state.picked); else begin();
    told.textContent = list.length === nodes.length ? plural(nodes.length, 'node') : `${count(list.length)} of ${count(nodes.length)}`;
  }

  // ---- one node ----

  function pick(k, focus) {
    state.picked = k;
    if (k < 0) { picked.replaceChildren(); again(); return; }
    const one = j => el('button', {type: 'button', class: 'small', click: () => pick(j, true)}, clean(nodes[j].op), ' ', nameOf(titleOf(nodes[j])));
    const list = (title, all) => all.length > 0 && el('p', {}, title, ' ', all.slice(0, 8).map(j => [one(j), ' ']), all.length > 8 && `and ${count(all.length - 8)} more`);
    picked.replaceChildren(el('p', {}, el('b', {}, clean(nodes[k].op)), ' ', nameOf(titleOf(nodes[k])), ' ', el('span', {class: 'sub'}, shapeOf(nodes[k])), weightsOf(nodes[k]) && [' weights ', nameOf(weightsOf(nodes[k]))]),
      list('reads', reads[k]) || '', list('is read by', users[k]) || '');
    if (state.near > 0) relay(); else if (focus) show(k); else again();
  }
  function search() {
    const wanted = input.value.trim().toLowerCase();
    state.found = wanted === '' ? [] : nodes.map((_, k) => k).filter(k => texts[k].includes(wanted));
    state.at = -1;
    if (wanted === '') { pick(-1); relay(); return; }
    told.textContent = `0 of ${count(nodes.length)}`;
    if (state.found.length > 0) next(1); else pick(-1);
  }
  function next(by) {
    if (state.found.length === 0) return;
    state.at = (state.at + by + state.found.length) % state.found.length;
    pick(state.found[state.at], true);
    told.textContent = `${count(state.at + 1)} of ${count(state.found.length)}`;
  }
  function under(x, y) {
    const at = {x: (x - state.x) / state.scale, y: (y - state.y) / state.scale}, rank = laid.ranks[Math.floor(at.y / BOX.rank)];
    const k = rank && rank.find(one => Math.abs(laid.places.get(one).x - at.x) <= BOX.width / 2);
    return k === undefined || at.y - laid.places.get(k).y > BOX.height ? -1 : k;
  }

  // ---- hands ----

  function keys(event) {
    const move = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60], PageUp: [0, 400], PageDown: [0, -400]}[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move) { state.x += move[0]; state.y += move[1]; hold(); } else if (event.key === '+' || event.key === '=') zoom(1.4);
    else if (event.key === '-') zoom(1 / 1.4);
    else if (event.key === '0') whole();
    else if (event.key === 'Escape') pick(-1);
    else if (event.key === 'Enter') { const {width, height} = size(); pick(nearest(width / 2, height / 2)); } else return;
    event.preventDefault();
  }
  function nearest(x, y) {
    const at = {x: (x - state.x) / state.scale, y: (y - state.y) / state.scale};
    const far = k => Math.hypot(laid.places.get(k).x - at.x, laid.places.get(k).y + BOX.height / 2 - at.y);
    return [...laid.places.keys()].reduce((best, k) => best < 0 || far(k) < far(best) ? k : best, -1);
  }
  const fingers = new Map();
  let moved = 0;
  const place = event => { const box = stage.getBoundingClientRect(); return {x: event.clientX - box.left, y: event.clientY - box.top}; };
  stage.addEventListener('pointerdown', event => { fingers.set(event.pointerId, place(event)); moved = fingers.size > 1 ? 100 : 0; stage.setPointerCapture(event.pointerId); });
  stage.addEventListener('pointermove', event => {
    const before = fingers.get(event.pointerId), now = place(event);
    if (!before) return;
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    if (other) {
      const apart = (a, b) => Math.max(1, Math.hypot(a.x - b.x, a.y - b.y));
      zoom(apart(now, other[1]) / apart(before, other[1]), {x: (now.x + other[1].x) / 2, y: (now.y + other[1].y) / 2});
    } else { state.x += now.x - before.x; state.y += now.y - before.y; hold(); }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    fingers.set(event.pointerId, now);
  });
  for (const name of ['pointerup', 'pointercancel']) stage.addEventListener(name, event => {
    const at = fingers.get(event.pointerId);
    fingers.delete(event.pointerId);
    if (at && name === 'pointerup' && moved < 6) pick(under(at.x, at.y));
  });
  // The wheel turns the page, as everywhere; with Ctrl, or as the pinch of a touchpad, it zooms.
  stage.addEventListener('wheel', event => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(-event.deltaY / 200), place(event)); } }, {passive: false});
  stage.addEventListener('dblclick', event => zoom(1.6, place(event)));

  // Begins at the first nodes, legible; small networks are there whole.
  function begin() {
    whole();
    if (state.scale < 0.55) {
      const {width} = size(), top = {x: laid.ranks[0].reduce((sum, k) => sum + laid.places.get(k).x, 0) / laid.ranks[0].length};
      Object.assign(state, {scale: Math.min(1, width / (BOX.width * 1.3)), y: 20});
      state.x = width / 2 - top.x * state.scale;
      again();
    }
  }
  let wide = 0; // what is in the middle stays there
  new ResizeObserver(() => {
    if (wide !== 0) state.x += (size().width - wide) / 2;
    wide = size().width;
    again();
  }).observe(stage);
  requestAnimationFrame(() => { relay(); });
  return node;
}

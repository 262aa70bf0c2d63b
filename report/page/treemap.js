'use strict';
// treemap.js - tensors as areas: as large as their bytes, in frames of their blocks, coloured by what they lost.

// Rectangles for values, as square as can be (Bruls, Huizing, van Wijk 2000). items: [{value}], largest first.
function squarify(items, x, y, width, height, place) {
  let total = items.reduce((sum, item) => sum + item.value, 0);
  let at = 0;
  while (at < items.length && width > 0 && height > 0) {
    const side = Math.min(width, height), scale = width * height / total;
    let row = 0, worst = Infinity, n = 0;
    for (; at + n < items.length; n++) {
      const next = row + items[at + n].value * scale;
      const largest = items[at].value * scale, least = items[at + n].value * scale;
      const ratio = Math.max(side * side * largest / (next * next), next * next / (side * side * least));
      if (n > 0 && ratio > worst) break;
      worst = ratio; row = next;
    }
    const thick = row / side;
    let along = 0;
    for (const item of items.slice(at, at + n)) {
      const length = item.value * scale / thick;
      if (width >= height) place(item, x, y + along, thick, length);
      else place(item, x + along, y, length, thick);
      along += length;
      total -= item.value;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    at += n;
  }
}

// Rectangles for values in their order: strips from above, each as many items as make it nearest to squares (Bederson, Shneiderman,
// Wattenberg 2002).
function strips(items, x, y, width, height, place) {
  const scale = width * height / items.reduce((sum, item) => sum + item.value, 0);
  const uneven = (list, sum) => { // how far the items of a strip are from squares, on average
    const high = sum * scale / width;
    return list.reduce((total, item) => { const wide = item.value * scale / high; return total + Math.max(wide / high, high / wide); }, 0) / list.length;
  };
  for (let at = 0; at < items.length;) {
    let n = 1, sum = items[at].value;
    while (at + n < items.length && uneven(items.slice(at, at + n + 1), sum + items[at + n].value) <= uneven(items.slice(at, at + n), sum)) { sum += items[at + n].value; n++; }
    const high = sum * scale / width;
    let along = x;
    for (const item of items.slice(at, at + n)) { const wide = item.value * scale / high; place(item, along, y, wide, high); along += wide; }
    y += high;
    at += n;
  }
}

// "model.layers.3" of "model.layers.3.mlp.up_proj.weight"; without a number all but the last two parts.
function blockOf(name) {
  const found = /^(.*?[._:/-]\d+)[._:/-]/.exec(name);
  return found ? found[1] : name.split(/[.:/]/).slice(0, -2).join('.') || name.split(/[.:/]/)[0];
}

// Blocks in the order of the file, layers by their numbers.
const inOrder = list => { const names = list.map(block => block.name); return inNumberOrder(names, names.map(patternOf)).map(i => list[i]); };

// tensors: [{name, bytes, look, said}]; pick: name => what a click does. Cells of one colour are one path, so that ten
// thousand tensors are a few elements; which cell the pointer is at is looked up.
function treemap(label, tensors, pick) {
  const blocks = new Map();
  for (const tensor of tensors) {
    if (!(tensor.bytes > 0)) continue;
    const key = blockOf(tensor.name);
    if (!blocks.has(key)) blocks.set(key, {name: key, value: 0, items: []});
    const block = blocks.get(key);
    block.items.push({value: tensor.bytes, tensor});
    block.value += tensor.bytes;
  }
  const list = inOrder([...blocks.values()]);
  for (const block of list) block.items.sort((a, b) => b.value - a.value);
  return drawing(label, width => {
    const height = Math.round(Math.min(560, Math.max(300, width * 0.42)));
    const cells = [], texts = [], paths = new Map();
    strips(list, 0, 0, width, height, (block, x, y, w, h) => {
      const head = w > 70 && h > 44 ? 15 : 0;
      squarify(block.items, x + 1, y + 1 + head, w - 2, h - 2 - head, (item, ...place) => drawTensor(cells, texts, paths, item.tensor, ...place));
      if (head) texts.push(svg('text', {class: 'block', x: x + 4, y: y + 12}, fitted(block.name, w - 6, 600)));
    });
    const picture = canvas(width, height, [...paths].map(([look, parts]) => svg('path', {class: 'cell ' + look, d: parts.join('')})), texts);
    tellCells(picture, cells, width, pick);
    return picture;
  });
}

function drawTensor(cells, texts, paths, tensor, x, y, w, h) {
  const gap = Math.min(1, 0.12 * Math.min(w, h));
  const wide = Math.max(0.2, w - gap).toFixed(1), high = Math.max(0.2, h - gap).toFixed(1);
  if (!paths.has(tensor.look)) paths.set(tensor.look, []);
  paths.get(tensor.look).push(`M${x.toFixed(1)} ${y.toFixed(1)}h${wide}v${high}h-${wide}z`);
  cells.push({x, y, w, h, tensor});
  const short = tensor.name.split(/[.:/]/).slice(-2).join('.').replace(/\.weight$/, '');
  if (w > 54 && h > 17) texts.push(svg('text', {class: 'label t-' + tensor.look, x: x + 4, y: y + 13}, fitted(short, w - 8)));
}

// What the pointer is at: name and figures beside it; a click picks it.
function tellCells(picture, cells, width, pick) {
  const frame = svg('path', {class: 'chosen', d: ''}), said = svg('g', {class: 'said'});
  const at = event => {
    const place = picture.getBoundingClientRect(), scale = width / place.width;
    const x = (event.clientX - place.left) * scale, y = (event.clientY - place.top) * scale;
    return cells.find(cell => x >= cell.x && x < cell.x + cell.w && y >= cell.y && y < cell.y + cell.h);
  };
  const clear = () => { frame.setAttribute('d', ''); said.replaceChildren(); };
  picture.append(frame, said);
  picture.addEventListener('pointerleave', clear);
  picture.addEventListener('click', event => { const cell = at(event); if (cell) pick(cell.tensor.name); });
  picture.addEventListener('pointermove', event => {
    const cell = at(event);
    if (!cell) return clear();
    frame.setAttribute('d', `M${cell.x} ${cell.y}h${cell.w}v${cell.h}h${-cell.w}z`);
    const lines = [fitted(cell.tensor.name, width - 20), cell.tensor.said], wide = Math.max(...lines.map(line => inked(line))) + 14;
    const left = Math.max(0, Math.min(width - wide, cell.x)), top = cell.y > 48 ? cell.y - 44 : cell.y + cell.h + 4;
    said.replaceChildren(svg('rect', {x: left, y: top, width: wide, height: 40, rx: 4}), ...lines.map((line, k) => svg('text', {x: left + 7, y: top + 16 + 16 * k}, line)));
  });
}

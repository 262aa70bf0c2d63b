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

// "model.layers.3" of "model.layers.3.mlp.up_proj.weight"; without a number all but the last two parts.
function blockOf(name) {
  const found = /^(.*?[._:/-]\d+)[._:/-]/.exec(name);
  return found ? found[1] : name.split(/[.:/]/).slice(0, -2).join('.') || name.split(/[.:/]/)[0];
}

// tensors: [{name, bytes, look, said}]; pick: name => what a click does.
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
  const list = [...blocks.values()].sort((a, b) => b.value - a.value);
  for (const block of list) block.items.sort((a, b) => b.value - a.value);
  return drawing(label, width => {
    const height = Math.round(Math.min(560, Math.max(300, width * 0.42)));
    const parts = [];
    squarify(list, 0, 0, width, height, (block, x, y, w, h) => {
      const head = w > 70 && h > 44 ? 15 : 0;
      squarify(block.items, x + 1, y + 1 + head, w - 2, h - 2 - head, (item, ix, iy, iw, ih) => drawTensor(parts, item.tensor, ix, iy, iw, ih, pick));
      if (head) parts.push(svg('text', {class: 'block', x: x + 4, y: y + 12}, fitted(block.name, w - 6, 6.2)));
    });
    return canvas(width, height, parts);
  });
}

// The end of a name says more than its beginning.
function fitted(name, width, each) {
  const most = Math.floor(width / each), text = clean(name);
  return text.length <= most ? text : most < 4 ? '' : '…' + text.slice(text.length - most + 1);
}

function drawTensor(parts, tensor, x, y, w, h, pick) {
  if (w < 0.4 || h < 0.4) return;
  const gap = w > 6 && h > 6 ? 1 : 0;
  parts.push(svg('rect', {class: 'cell ' + tensor.look, x: x.toFixed(1), y: y.toFixed(1), width: Math.max(0.3, w - gap).toFixed(1),
    height: Math.max(0.3, h - gap).toFixed(1), click: () => pick(tensor.name)}, svg('title', {}, clean(tensor.name) + '\n' + tensor.said)));
  const short = tensor.name.split(/[.:/]/).slice(-2).join('.').replace(/\.weight$/, '');
  if (w > 54 && h > 17) parts.push(svg('text', {class: 'label ' + 't-' + tensor.look, x: x + 4, y: y + 13}, fitted(short, w - 8, 6.1)));
}

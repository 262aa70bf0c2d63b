'use strict';
// draw.js - what drawings share: a place that follows the window's width, scales, axes, stacked bars, legends.

// A drawing that is made anew where its width changes. draw: width => svg element.
function drawing(label, draw) {
  const place = el('div', {class: 'drawing'});
  let drawn = 0;
  const again = () => {
    const width = Math.max(240, Math.round(place.clientWidth));
    if (width === drawn) return;
    drawn = width;
    const picture = draw(width);
    picture.setAttribute('role', 'img');
    picture.setAttribute('aria-label', label);
    place.replaceChildren(picture);
  };
  new ResizeObserver(again).observe(place);
  return place;
}
const canvas = (width, height, ...children) =>
  svg('svg', {viewBox: `0 0 ${width} ${height}`, width: '100%', preserveAspectRatio: 'xMidYMid meet'}, children);

const legend = (...entries) => el('ul', {class: 'legend'}, entries.map(([look, text]) => el('li', {}, swatch(look), text)));
// Classes from small to large, with what each reaches.
const ramp = (title, prefix, labels) => el('div', {class: 'ramp'}, el('span', {}, title), el('ol', {},
  labels.map((label, k) => el('li', {class: prefix + k}, label))));
const errorRamp = () => ramp('error in percent, up to', 'e', errorLabels);
const zeroRamp = () => ramp('zeros in percent, from', 'z', zeroLabels);

// ---- scales ----

const linear = (from, to, a, b) => x => a + (b - a) * (to === from ? 0.5 : (x - from) / (to - from));
const logarithmic = (from, to, a, b) => x => linear(Math.log(from), Math.log(to), a, b)(Math.log(x));

function ticks(from, to, most) {
  if (!(to > from)) return [from];
  const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(k => k * power >= rough * 0.999) * power;
  const list = [];
  for (let x = Math.ceil(from / step - 1e-9) * step; x <= to + step * 1e-9; x += step) list.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return list;
}
function byteTicks(to, most) {
  let step = 1;
  while (to / step > most) step *= 2;
  return Array.from({length: Math.floor(to / step) + 1}, (_, k) => k * step);
}
function powerTicks(from, to) {
  const list = [];
  for (let p = Math.floor(Math.log10(from)); p <= Math.ceil(Math.log10(to)); p++)
    for (const k of [1, 2, 5]) if (k * 10 ** p >= from * 0.999 && k * 10 ** p <= to * 1.001) list.push(k * 10 ** p);
  const whole = list.filter(x => Math.abs(Math.log10(x) - Math.round(Math.log10(x))) < 1e-9);
  return list.length > 6 && whole.length > 1 ? whole : list;
}

// Of ticks with the same text the first: two places of an axis never say the same.
const distinct = (list, text) => list.filter((t, i) => list.findIndex(other => text(other) === text(t)) === i);

// ---- axes ----

// A frame for x from x0 to x1 and y from y0 to y1: {x, y, parts, box}, where x and y give places in the picture.
function frame(width, height, {x0, x1, y0, y1, log, xTitle, yTitle, xText = count, yText = real, yTicks, xTicks}) {
  const box = {left: 58, right: width - 12, top: 14, bottom: height - 38};
  const x = linear(x0, x1, box.left, box.right);
  const y = (log ? logarithmic : linear)(y0, y1, box.bottom, box.top);
  const ys = distinct(yTicks || (log ? powerTicks(y0, y1) : ticks(y0, y1, 5)), yText);
  const xs = distinct(xTicks || ticks(x0, x1, width < 480 ? 4 : 8), xText);
  const parts = [
    ...ys.map(t => svg('path', {class: 'grid', d: `M${box.left} ${y(t)}H${box.right}`})),
    ...ys.map(t => svg('text', {class: 'tick', x: box.left - 7, y: y(t) + 4, 'text-anchor': 'end'}, yText(t))),
    svg('path', {class: 'axis', d: `M${box.left} ${box.bottom}H${box.right}`}),
    ...xs.map(t => svg('text', {class: 'tick', x: x(t), y: box.bottom + 16, 'text-anchor': x(t) > box.right - 20 ? 'end' : 'middle'}, xText(t))),
    svg('text', {class: 'tick', x: (box.left + box.right) / 2, y: height - 4, 'text-anchor': 'middle'}, xTitle || ''),
    yTitle && svg('text', {class: 'tick', x: 2, y: 9}, yTitle),
  ];
  return {x, y, parts, box};
}

// Pixels that a text takes in a drawing (svg text of the style sheet: 11px of the page's font); weight 600: a bold one.
const ruler = document.createElement('canvas').getContext('2d');
function inked(text, weight = 400) {
  ruler.font = `${weight} 11px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

// The end of a name says more than its beginning: whole parts are left out first, "layers.3" of "model.layers.3". No drawing
// has room for 1000 letters, and each try is measured.
function fitted(name, width, weight) {
  const text = clean(name).slice(-1000), parts = text.split('.');
  for (let k = 0; k < parts.length; k++) {
    const end = parts.slice(k).join('.');
    if ((k === 0 || !/^\d*$/.test(end)) && inked(end, weight) <= width) return end;
  }
  let n = text.length; // letters of the end
  while (n > 0 && inked('…' + text.slice(text.length - n), weight) > width) n--;
  return n < 3 ? '' : '…' + text.slice(text.length - n);
}

// Says beside the pointer what `tell(place in the picture)` finds: {x, lines}, or null.
function follow(picture, box, height, tell) {
  const mark = svg('path', {class: 'pointer', d: ''});
  const text = svg('g', {class: 'said'});
  picture.append(mark, text);
  picture.addEventListener('pointerleave', () => { mark.setAttribute('d', ''); text.replaceChildren(); });
  picture.addEventListener('pointermove', event => {
    const place = picture.getBoundingClientRect();
    const at = (event.clientX - place.left) * picture.viewBox.baseVal.width / place.width;
    const found = tell(Math.min(box.right, Math.max(box.left, at)));
    if (!found) return;
    mark.setAttribute('d', `M${found.x} ${box.top}V${box.bottom}`);
    const wide = Math.max(...found.lines.map(line => inked(line))) + 14;
    const left = found.x + wide + 10 > box.right ? Math.max(0, found.x - wide - 8) : found.x + 8;
    text.replaceChildren(svg('rect', {x: left, y: box.top + 4, width: wide, height: 16 * found.lines.length + 8, rx: 4}),
      ...found.lines.map((line, k) => svg('text', {x: left + 7, y: box.top + 20 + 16 * k}, line)));
  });
}

// ---- bars ----

// A bar of parts [{name, value, look}], as long as it is of `whole`.
function stack(label, parts, whole, text) {
  const sum = parts.reduce((total, part) => total + part.value, 0);
  return el('div', {class: 'bar'}, el('span', {}, label), el('b', {}, text),
    el('div', {class: 'stack', role: 'img', 'aria-label': `${label}: ${text}: ` +
      parts.filter(part => part.value > 0).map(part => `${part.name} ${percent(part.value, sum)}`).join(', ')},
    parts.filter(part => part.value > 0).map(part => el('i', {class: part.look, title: `${part.name} ${percent(part.value, sum)}`,
      style: {width: 100 * part.value / (whole || 1) + '%'}}))));
}
const beforeAfter = (before, after, text, names = ['before', 'after']) => {
  const whole = Math.max(before, after, 1e-300);
  return [stack(names[0], [{name: names[0], value: before, look: 'before'}], whole, text(before)),
    stack(names[1], [{name: names[1], value: after, look: 'after'}], whole, text(after))];
};
// A share as a short bar in a table.
const meter = share => el('span', {class: 'meter', 'aria-hidden': 'true'}, el('i', {style: {width: 100 * Math.max(0, Math.min(1, share)) + '%'}}));

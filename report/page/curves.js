'use strict';
// curves.js - lines over the steps of a run, and points of size against loss, with axes and what the pointer is at.

// series: [{name, look, points: [[x, y], ...]}]. Logarithmic where the largest is far from the least.
function curves(label, series, {xTitle = 'step', yTitle = '', yText = real, zero = false, height = 260} = {}) {
  const lines = series.map(one => ({...one, points: one.points.filter(([, y]) => isNumber(y))})).filter(one => one.points.length > 0);
  if (lines.length === 0) return null;
  const xs = lines.flatMap(one => one.points.map(([x]) => x)), ys = lines.flatMap(one => one.points.map(([, y]) => y));
  const lowest = ys.reduce((a, b) => Math.min(a, b)), highest = ys.reduce((a, b) => Math.max(a, b));
  const positive = ys.filter(y => y > 0);
  const log = !zero && lowest > 0 && highest > 20 * lowest && positive.length === ys.length;
  const y0 = log ? lowest : zero || lowest > 0 && lowest < 0.4 * highest ? 0 : lowest;
  const y1 = highest === y0 ? y0 + (Math.abs(y0) || 1) : highest;
  const x0 = Math.min(...[xs[0], ...lines.map(one => one.points[0][0])]), x1 = xs.reduce((a, b) => Math.max(a, b));
  const picture = drawing(label, width => {
    const {x, y, parts, box} = frame(width, height, {x0, x1, y0, y1, log, xTitle, yTitle: [yTitle, log && 'logarithmic'].filter(Boolean).join(', '), yText});
    const drawn = canvas(width, height, parts, lines.map(one => svg('path', {class: 'curve ' + one.look,
      d: one.points.map(([px, py], k) => (k ? 'L' : 'M') + x(px).toFixed(1) + ' ' + y(py).toFixed(1)).join('')})),
    lines.filter(one => one.points.length < 3).flatMap(one => one.points.map(([px, py]) => svg('circle', {class: 'dot ' + one.look, cx: x(px), cy: y(py), r: 3.5}))));
    follow(drawn, box, height, at => {
      const nearest = lines.map(one => one.points.reduce((best, point) => Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best));
      return {x: x(nearest[0][0]), lines: [`${xTitle} ${count(nearest[0][0])}`, ...nearest.map((point, k) => `${lines[k].name} ${yText(point[1])}`)]};
    });
    return drawn;
  });
  return el('figure', {}, picture, lines.length > 1 && el('ul', {class: 'legend'}, lines.map(one => el('li', {}, el('i', {class: 'line ' + one.look}), one.name))));
}

// The relative error that normal weights have in 8 bits with a scale for each row (41 dB, 0.9 %) and in 4 bits with one for 128 of it (20 to 21 dB, 9 to 10 %),
// rounded (docs/numerics.md).
const USUAL = [[0.01, 'usual for int8'], [0.1, 'usual for int4']];

// points: [{name, x: bytes, y, look}], named where there is room.
function scatter(label, points, {xTitle, yTitle, yText, usual = []}) {
  const list = points.filter(point => isNumber(point.x) && isNumber(point.y) && point.y > 0);
  if (list.length < 2) return null;
  const xs = list.map(point => point.x), ys = list.map(point => point.y);
  const y0 = Math.min(...ys), y1 = Math.max(...ys), x1 = Math.max(...xs);
  return drawing(label, width => {
    const height = 340;
    const {x, y, parts} = frame(width, height, {x0: 0, x1: x1 * 1.02, y0: y1 > y0 ? y0 * 0.8 : y0 * 0.5, y1: y1 * 1.25, log: true, xTitle, yTitle, xText: bytes, yText,
      xTicks: byteTicks(x1, width < 480 ? 3 : 6)});
    // "usual for int4": what to compare with, where it lies between the points.
    const lines = usual.filter(([at]) => at > y0 * 0.8 && at < y1 * 1.25).flatMap(([at, text]) => [svg('path', {class: 'phase', d: `M58 ${y(at)}H${width - 12}`}),
      svg('text', {class: 'tick', x: width - 14, y: y(at) - 4, 'text-anchor': 'end'}, text)]);
    const taken = usual.map(([at, text]) => ({left: width - 14 - inked(text), right: width - 14, top: y(at) - 15}));
    const names = [...list].sort((a, b) => a.x - b.x).map(point => {
      const px = x(point.x), py = y(point.y), name = fitted(point.name, Math.max(px, width - px) - 10), long = inked(name);
      const left = px + 8 + long > width ? px - 8 - long : px + 8;
      const free = [0, -14, 14, -28, 28].map(dy => ({left, right: left + long, top: py - 7 + dy})).find(box =>
        !taken.some(other => box.left < other.right && other.left < box.right && Math.abs(box.top - other.top) < 13));
      if (free) taken.push(free);
      return free && svg('text', {class: 'tick', x: free.left, y: free.top + 11}, name);
    });
    return canvas(width, height, parts, lines, list.map(point => svg('circle', {class: 'dot ' + point.look, cx: x(point.x), cy: y(point.y), r: 5},
      svg('title', {}, `${clean(point.name)}: ${bytes(point.x)}, ${yText(point.y)}`))), names);
  });
}

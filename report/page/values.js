'use strict';
// values.js - how the values of single tensors lie: the values before, the values that codes can say, the errors.

function bars(counts, left, right, base, tall, look) {
  const most = Math.log1p(Math.max(...counts, 1)), wide = (right - left) / counts.length;
  return svg('path', {class: look, d: counts.map((n, i) => n === 0 ? '' :
    `M${(left + i * wide).toFixed(2)} ${base}h${(wide * 0.92).toFixed(2)}v${(-tall * Math.log1p(n) / most).toFixed(2)}h${(-wide * 0.92).toFixed(2)}z`).join('')});
}
const under = (width, y, reach) => [[6, 'start', -reach], [width / 2, 'middle', 0], [width - 6, 'end', reach]].map(([x, anchor, value]) =>
  svg('text', {class: 'tick', x, y, 'text-anchor': anchor}, real(value)));

function histogram(h) {
  const compared = Array.isArray(h.error_bins), levels = h.levels || [];
  const figure = drawing(`values of ${clean(h.tensor)} from ${real(-h.reach)} to ${real(h.reach)}`, width => {
    const place = linear(-h.reach, h.reach, 6, width - 6), most = Math.log1p(Math.max(...(h.level_counts || []), 1));
    const parts = [bars(h.bins, 6, width - 6, 100, 86, 'hist'), svg('path', {class: 'axis', d: `M6 100.5H${width - 6}`})];
    if (levels.length > 0) {
      parts.push(svg('path', {class: 'level', d: levels.map((level, i) =>
        `M${place(level).toFixed(1)} 102v${(4 + 26 * Math.log1p(h.level_counts[i]) / most).toFixed(1)}`).join('')}));
    }
    const below = levels.length > 0 ? 146 : 116;
    parts.push(...under(width, below, h.reach));
    if (!compared) return canvas(width, below + 4, parts);
    parts.push(bars(h.error_bins, 6, width - 6, below + 58, 46, 'err'), svg('path', {class: 'axis', d: `M6 ${below + 58.5}H${width - 6}`}),
      ...under(width, below + 74, h.error_reach));
    return canvas(width, below + 78, parts);
  });
  const seen = h.seen < h.elements ? `; the first ${short(h.seen)} of ${short(h.elements)} values` : '';
  return el('figure', {}, el('h3', {}, nameOf(h.tensor)), figure, el('figcaption', {}, h.scheme ? clean(h.scheme) + ', ' : '',
    isNumber(h.sqnr_db) ? 'SQNR ' + decibel(h.sqnr_db) : plural(h.elements, 'value'),
    compared ? `; zeros ${count(h.zeros)} before, ${count(h.zeros_after)} after` : `; ${plural(h.zeros, 'zero')}`, seen));
}

function histograms(document) {
  if (!document.histograms || document.histograms.length === 0) return;
  const compared = document.histograms.some(h => h.error_bins);
  section(compared ? 'The tensors that lost most' : 'How the values lie',
    'Bars count values in bins of equal width, on a logarithmic scale.' + (compared
      ? ' Lines below the axis: the values that one row has afterwards, longer where more weights have them. Grey: errors.' : ''),
    el('div', {class: 'looks'}, document.histograms.map(histogram)));
}

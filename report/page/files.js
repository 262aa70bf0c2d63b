'use strict';
// files.js - what is in files: inspect, verify, the difference of two checkpoints, the difference of two documents.

function viewInspect(document) {
  const {totals, estimates, input} = document, stats = document.tensors.some(row => row.stats);
  section(null, null, hero('', short(totals.parameters), `parameters in ${plural(totals.tensors, 'tensor')}`, stack('values', document.dtypes.map(type => ({name: type.dtype, value: type.bytes, look: kindClass(type.dtype)})), totals.value_bytes, bytes(totals.value_bytes)),
    legend(...document.dtypes.map(type => [kindClass(type.dtype), `${clean(type.dtype)} ${bytes(type.bytes)}`]))), tiles([['file', bytes(input.file_bytes), clean(input.format) + (input.compressed ? ', compressed' : '')],
    ['quantized tensors', totals.quantized > 0 ? count(totals.quantized) : null], ['as int8', isNumber(estimates.int8_file_bytes) ? bytes(estimates.int8_file_bytes) : null], ['as fp16', isNumber(estimates.fp16_file_bytes) ? bytes(estimates.fp16_file_bytes) : null],
    ['layout', document.layout && clean(document.layout.name), document.layout && document.layout.loader && 'for ' + clean(document.layout.loader)]]));
  const table = explorer({label: 'tensors', rows: document.tensors, name: row => row.name, kind: row => [row.dtype, row.shape, row.role].join(), sub: row => row.alias_of && el('span', {class: 'sub'}, ' = ', clean(row.alias_of)), columns: [
    {title: 'shape', value: row => shape(row.shape)}, {title: 'type', value: row => row.quant && row.quant.scheme ? row.quant.scheme : row.dtype}, {title: 'elements', figure: true, fold: 'sum', value: row => row.elements, show: short},
    {title: 'bytes', figure: true, fold: 'sum', value: row => row.bytes, show: bytes}, {title: 'role', value: row => row.role === 'weight' ? '' : row.role},
    ...(stats ? [{title: 'smallest', figure: true, fold: 'least', value: row => row.stats ? row.stats.min : NaN, show: real}, {title: 'largest', figure: true, fold: 'most', value: row => row.stats ? row.stats.max : NaN, show: real},
      {title: 'RMS', figure: true, fold: 'most', value: row => row.stats ? row.stats.rms : NaN, show: real}, {title: 'zeros', figure: true, fold: 'most', value: row => row.stats && row.elements > 0 ? row.stats.zeros / row.elements : NaN, show: value => percent(value)},
      {title: 'NaN, infinite', figure: true, fold: 'sum', value: row => row.stats ? row.stats.nans + row.stats.infs : NaN, show: value => value > 0 ? badge('no', count(value)) : '0'}] : [])]});
  section('What is large', 'Areas are bytes, colours types. A click looks the tensor up.', treemap('bytes by tensor', document.tensors.map(row => ({name: row.name, bytes: row.bytes, look: kindClass(row.dtype), said: `${row.dtype} ${shape(row.shape)}, ${bytes(row.bytes)}`})), table.search),
    legend(...document.dtypes.map(type => [kindClass(type.dtype), clean(type.dtype)])));
  section('Tensors', null, table.node);
  if (stats) magnitudes(document.tensors);
  gpusSection(document.gpus);
  const facts = document.facts || [];
  if (facts.length > 0) section('What the file says', null, plainTable('facts', ['key', 'value'], facts.map(fact => [clean(fact.key), el('span', {class: 'why'}, clean(fact.value))])));
}

// How large values are, over all tensors: counts by power of two; bin e has magnitudes from 2^(e-127) on.
function magnitudes(tensors) {
  const sums = new Array(256).fill(0);
  for (const row of tensors) if (row.stats && row.stats.histogram) row.stats.histogram.forEach((n, e) => { sums[e] += n; });
  const used = sums.map((n, e) => n > 0 ? e : -1).filter(e => e > 0);
  if (used.length === 0) return;
  const first = Math.min(...used), last = Math.max(...used), shown = sums.slice(first, last + 1);
  section('How large the values are', `Counts of all values by power of two, on a logarithmic scale; ${count(sums[0])} are zero or subnormal.`, drawing('counts of values by power of two', width => canvas(width, 150,
    bars(shown, 6, width - 6, 120, 108, 'hist'), svg('path', {class: 'axis', d: `M6 120.5H${width - 6}`}), svg('text', {class: 'tick', x: 6, y: 138}, '2^' + (first - 127)),
    svg('text', {class: 'tick', x: width - 6, y: 138, 'text-anchor': 'end'}, '2^' + (last - 126)))));
}

function viewVerify(document) {
  const {against} = document;
  section(null, null, hero(document.fine ? 'yes' : 'no', document.fine ? 'fine' : 'not fine', document.errors + document.warnings === 0 ? 'nothing was found' : `${plural(document.errors, 'error')}, ${plural(document.warnings, 'warning')}`, tiles([
    ['file', bytes(document.input.file_bytes), clean(document.input.format)], ['tensors', count(document.input.tensors)], ['values', document.data ? 'read' : 'not read']])));
  if (document.findings.length > 0) section('Findings', null, explorer({label: 'findings', head: 'tensor', unit: 'finding', grouped: false, rows: document.findings, name: row => row.tensor || '(file)', columns: [
    {title: 'severity', value: row => row.severity, show: word => badge(word === 'error' ? 'no' : 'near', word)}, {title: 'id', value: row => row.id}, {title: 'what was found', long: true, value: row => row.sentence}]}).node);
  if (against) section('Against its source', clean(against.path), tiles([['tensors compared', count(against.compared)], ['identical', count(against.identical)], ['SQNR over all', decibel(against.sqnr_db)],
    ['worst', against.worst_tensor && nameOf(against.worst_tensor)]]));
  if (document.tensors && document.tensors.length > 0) section('Tensors', null, explorer({label: 'tensors', rows: document.tensors, name: row => row.name, kind: row => row.dtype, columns: [
    {title: 'type', value: row => row.dtype}, {title: 'elements', figure: true, fold: 'sum', value: row => row.elements, show: short}, {title: 'NaN', figure: true, fold: 'sum', value: row => row.read ? row.nans : NaN}, {title: 'infinite', figure: true, fold: 'sum', value: row => row.read ? row.infs : NaN},
    ...(against ? [{title: 'SQNR', figure: true, fold: 'least', value: row => !row.compared ? NaN : row.compared.identical || row.compared.exact ? Infinity : row.compared.sqnr_db, show: value => value === Infinity ? 'exact' : decibel(value),
      look: value => value === Infinity ? '' : 'edge ' + errorClass(10 ** (-value / 20))}, {title: 'largest error', figure: true, fold: 'most', value: row => row.compared ? row.compared.max_abs_error : NaN, show: real}] : []),
    document.tensors.some(row => row.sha256) && {title: 'SHA-256', value: row => row.sha256, show: value => el('code', {}, clean(value))}].filter(Boolean)}).node);
}

const diffWords = {same: 'equal', values: 'differs', shape: 'other shape', only_a: 'only in the first', only_b: 'only in the second'};

function viewDiff(document) {
  const {totals, a, b, limits} = document, equal = totals.different === 0;
  const limit = [isNumber(limits.tolerance) && limits.tolerance > 0 && `tolerance ${real(limits.tolerance)}`, isNumber(limits.min_sqnr_db) && `at least ${decibel(limits.min_sqnr_db)}`].filter(Boolean).join(', ');
  section(null, null, hero(equal ? 'yes' : document.within ? 'near' : 'no', equal ? 'equal' : document.within ? 'close' : 'differs', `${count(totals.different)} of ${plural(totals.tensors, 'tensor')} differ` + (limit ? `; ${limit}: ${totals.beyond === 0 ? 'all within' : count(totals.beyond) + ' beyond'}` : ''),
    el('div', {class: 'bars'}, beforeAfter(a.file_bytes, b.file_bytes, bytes, ['first', 'second']))), tiles([['SQNR over all', totals.exact ? 'exact' : decibel(totals.sqnr_db)], ['largest error', real(totals.max_abs_error)], ['first', nameOf(base(a.path)), clean(a.format)], ['second', nameOf(base(b.path)), clean(b.format)]]));
  const rank = row => ['only_a', 'only_b', 'shape', 'values', 'same'].indexOf(row.kind);
  const rows = [...document.tensors].sort((x, y) => rank(x) - rank(y) || (x.sqnr_db === null ? 1e9 : x.sqnr_db) - (y.sqnr_db === null ? 1e9 : y.sqnr_db));
  const table = explorer({label: 'tensors', rows, name: row => row.name, grouped: true, kind: row => [row.kind, row.dtype_a, row.dtype_b].join(), columns: [
    {title: 'answer', value: row => row.kind === 'values' && row.within ? 'close enough' : diffWords[row.kind], show: (word, row) => badge(row.kind === 'same' ? 'yes' : row.within ? 'near' : 'no', word)},
    {title: 'type', value: row => row.dtype_a === row.dtype_b ? row.dtype_a : `${row.dtype_a || '–'} → ${row.dtype_b || '–'}`}, {title: 'elements', figure: true, fold: 'sum', value: row => row.elements, show: short},
    {title: 'SQNR', figure: true, fold: 'least', value: row => row.exact ? Infinity : row.sqnr_db === null ? NaN : row.sqnr_db, show: value => value === Infinity ? 'exact' : decibel(value), look: value => value === Infinity ? '' : 'edge ' + errorClass(10 ** (-value / 20))},
    {title: 'largest error', figure: true, fold: 'most', value: row => row.max_abs_error, show: real}, {title: 'cosine', figure: true, fold: 'least', value: row => row.cosine, show: value => value.toFixed(7)}]});
  if (!equal) section('Where the difference is', 'Areas are elements, colours the error; grey tensors have no figure. A click looks the tensor up.', treemap('difference by tensor', document.tensors.map(row => ({name: row.name, bytes: row.elements,
    look: row.kind === 'same' ? 'e0' : row.sqnr_db === null && !row.exact ? 'none' : errorClass(relativeOf(row)), said: `${diffWords[row.kind]}, SQNR ${sqnr(row)}`})), table.search), errorRamp());
  section('Tensors', 'The worst first.', table.node);
  histograms(document);
}

// ---- two documents ----

const plainValue = (value, member) => value === null || value === undefined ? '–' : typeof value === 'object' ? '…' : typeof value !== 'number' ? clean(value)
  : /bytes|^totals\.(file|host|device)\.(before|after|native|dequantized)|^memory\./.test(member) && !/macs/.test(member) ? bytes(value) : Number.isInteger(value) ? count(value) : real(value);

function viewChanges(document) {
  const members = document.changes.filter(change => change.name === null), items = document.changes.filter(change => change.name !== null);
  const side = key => [nameOf(base(document[key].path)), document[key].command && el('code', {}, clean(document[key].command))];
  section(null, null, hero(document.same ? 'yes' : '', document.same ? 'equal' : count(document.changes.length), document.same ? 'both documents say the same' : `members differ, in ${plural(new Set(items.map(change => change.name)).size, 'tensor')} and the totals`,
    tiles([['first', ...side('a')], ['second', ...side('b')], ['documents', clean(document.of)]])));
  const change = row => isNumber(row.a) && isNumber(row.b) && row.a !== 0 ? row.b / row.a - 1 : NaN;
  const columns = [{title: 'first', figure: true, value: row => row.a, show: (value, row) => plainValue(row.a, row.member)}, {title: 'second', figure: true, value: row => row.b, show: (value, row) => plainValue(row.b, row.member)},
    {title: 'change', figure: true, value: change, show: value => (value > 0 ? '+' : '−') + percent(Math.abs(value))}];
  if (members.length > 0) section('Figures', null, explorer({label: 'figures', head: 'member', unit: 'member', grouped: false, rows: members, name: row => row.member, columns}).node);
  if (items.length > 0) section('Tensors and other items', null, explorer({label: 'items', head: 'name', unit: 'change', rows: items, name: row => row.name, kind: row => row.member, columns: [{title: 'member', value: row => row.member}, ...columns]}).node);
}

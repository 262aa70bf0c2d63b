'use strict';
// sensitivity.js - what each tensor would lose: tensors and ways as a table with colours, and each way's size against its
// loss.

function viewSensitivity(document) {
  const {advice, ways} = document, outputs = document.data;
  const advised = (title, one) => one.way && [title, one.picks.length === 0 ? 'all alike' : plural(one.picks.length, 'tensor'), `${clean(one.way)}: median ${percent(one.median)}, more than ${percent(one.limit)} stands out`];
  section(null, null, hero('', count(document.measured), `of ${plural(document.tensors.length, 'weight')} measured`, tiles([['file', bytes(document.input.file_bytes), clean(document.input.format)], advised('stand out where pruned', advice.prune) || ['', null],
    advised('stand out where quantized', advice.quantize) || ['', null], ['rows of data', outputs ? count(outputs.rows) : null, outputs && plural(outputs.runs, 'run')]])), document.note && note(clean(document.note)));
  if (!document.tensors.some(row => row.errors)) return;
  const table = errorTable(document, 'tensors', row => row.errors, error => error.relative, (error) => error.reason || (error.exact ? 'exact' : ''));
  section('What each tensor loses', 'Relative error in percent for each way: the RMS of the change by the RMS of the tensor. A dash: the way does not apply.', errorRamp(), table.node);
  if (outputs) {
    section('What the outputs lose', `Where that tensor alone changes, over ${plural(outputs.rows, 'row')}: the norm of the change by the norm of the outputs, in percent.`, errorRamp(),
      errorTable(document, 'outputs', row => row.outputs, change => change.relative, change => change.reason || (isNumber(change.answers) ? percent(change.answers) + ' of the answers change' : '')).node);
    sensitivityGroups(outputs);
  }
  const points = candidatePoints(document, ways);
  const cloud = scatter('size against loss', points, {xTitle: 'bytes of all measured tensors', yTitle: 'relative error', yText: percent, usual: USUAL});
  if (cloud) section('Candidates', 'Each way for all measured tensors: their bytes against the error over all. Pruning without a pattern keeps its bytes, and is not drawn.', cloud);
  const picks = [...advice.prune.picks.map(pick => ['prune', pick, advice.prune.way]), ...advice.quantize.picks.map(pick => ['quantize', pick, advice.quantize.way])];
  if (picks.length > 0) section('Tensors that stand out', null, plainTable('tensors that stand out', ['tensor', 'where', 'way', '>loses'], picks.map(([where, pick, way]) => [nameOf(pick.name), where, clean(way), percent(pick.relative)])));
  histograms(document);
  const drawn = window.document.getElementById('drawing'); // the same figures once more, for those who read without scripts
  if (drawn) drawn.remove();
}

function errorTable(document, label, errorsOf, valueOf, why) {
  const rows = document.tensors.filter(row => errorsOf(row));
  const used = document.ways.filter(way => rows.some(row => errorsOf(row)[way.name]));
  return explorer({label, rows, name: row => row.name, heats: true, columns: used.map(way => ({title: clean(way.name), tall: true, fold: 'most', value: row => { const one = errorsOf(row)[way.name]; return one && isNumber(valueOf(one)) ? valueOf(one) : NaN; },
    look: value => 'heat ' + errorClass(value) + ' t-' + errorClass(value), show: (value, row, n) => el('span', {title: n > 1 ? 'the largest' : why(errorsOf(row)[way.name] || {}) || null}, tight(value))}))});
}
// 0.0312 as "3.1"
const tight = value => { const x = 100 * value; return x === 0 ? '0' : x >= 9.95 ? x.toFixed(0) : x >= 0.995 ? x.toFixed(1) : x >= 0.00995 ? x.toFixed(2).slice(1) : '<.01'; };

// The error over all tensors: changes and values add up as squares.
function candidatePoints(document, ways) {
  return ways.filter(way => way.kind !== 'magnitude').map(way => {
    let size = 0, change = 0, energy = 0;
    for (const row of document.tensors) {
      const error = row.errors && row.errors[way.name];
      if (!error || !isNumber(error.relative) || !isNumber(error.bytes)) continue;
      const weight = row.rms * row.rms * row.elements;
      size += error.bytes; change += error.relative * error.relative * weight; energy += weight;
    }
    return {name: way.name, x: size, y: energy > 0 ? Math.sqrt(change / energy) : NaN, look: way.kind === 'pattern' ? 'k2' : 'k0'};
  }).filter(point => point.x > 0);
}

function sensitivityGroups(data) {
  const rows = data.groups.filter(group => group.removed.length > 0);
  if (rows.length === 0) return;
  const shares = rows[0].removed.map(one => one.sparsity);
  section('What removing units costs', 'Change of the outputs in percent where that share of the units is removed, the least important first.', explorer({label: 'groups of units', head: 'group', unit: 'group', rows, name: row => row.name, columns: [
    {title: 'units', value: row => `${row.units} ${row.unit}`}, ...shares.map((share, k) => ({title: percent(share), tall: true, fold: 'most', value: row => row.removed[k] && row.removed[k].outputs ? row.removed[k].outputs.relative : NaN,
      look: value => 'heat ' + errorClass(value) + ' t-' + errorClass(value), show: tight}))]}).node);
}

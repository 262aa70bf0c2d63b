'use strict';
// report.js - what a job did to a model (quantize, prune, run, convert), and what a distillation reached.

const changedActions = new Set(['quantized', 'cast', 'dequantized', 'pruned', 'cut', 'trained', 'merged']);
const zerosOf = row => row.measured && row.elements > 0 ? row.measured.zeros_after / row.elements : NaN;

function reportHero(document) {
  const {totals} = document, pruning = totals.pruning;
  const inFile = isNumber(totals.file.after), before = (inFile ? totals.file : totals.host).before, after = (inFile ? totals.file : totals.host).after;
  const zeros = pruning && isNumber(pruning.sparsity) && after > 0.98 * before;
  const state = document.dry_run ? ', planned: nothing is written' : document.output.written ? '' : ', but nothing was written';
  const figure = zeros ? percent(pruning.sparsity) : before === after ? '1×' : times(after > before ? after / before : before / after);
  const meaning = (zeros ? 'zeros in the tensors that were pruned' : before === after ? 'the same size' : (after > before ? 'larger ' : 'smaller ') + (inFile ? 'file' : 'values')) + state;
  const gates = document.gates.missed ? note(badge('no', '✕ gate missed'), ' ', clean(document.gates.missed))
    : document.gates.each.length > 0 ? note(badge('yes', '✓ gates met')) : null;
  const worst = document.tensors.find(row => row.name === totals.worst_tensor);
  section(null, null, hero(document.gates.missed ? 'no' : '', figure, meaning, el('div', {class: 'bars'}, beforeAfter(before, after, bytes))), tiles([
    ['tensors changed', count(totals.changed), `of ${count(totals.tensors)}; ${short(totals.parameters)} parameters`],
    ['in memory', bytes(totals.host.after), 'before ' + bytes(totals.host.before)],
    ['bits per weight', isNumber(totals.bits_per_weight) ? totals.bits_per_weight.toFixed(2) : null],
    ['SQNR over all changed', totals.exact ? 'exact' : decibel(totals.sqnr_db), 'higher is closer'],
    ['SQNR of the worst', worst ? sqnr(worst.measured) : null, worst && nameOf(worst.name)],
    ['zeros in pruned tensors', pruning && isNumber(pruning.sparsity) ? percent(pruning.sparsity) : null, pruning && isNumber(pruning.model_sparsity) ? percent(pruning.model_sparsity) + ' of the model' : null],
  ]), gates, document.gates.each.length > 1 && plainTable('gates', ['gate', '>limit', '>value', 'answer'], document.gates.each.map(gate =>
    [clean(gate.id), real(gate.limit), real(gate.value), gate.passed === null ? badge('maybe', '? not known') : gate.passed ? badge('yes', '✓ met') : badge('no', '✕ missed')])));
}

function reportComponents(document) {
  const {totals} = document, parts = new Map();
  const add = (name, side, value) => {
    if (!parts.has(name)) parts.set(name, {before: 0, after: 0});
    parts.get(name)[side] += value;
  };
  for (const row of document.tensors) if (row.role === 'weight') {
    add(row.dtype_before, 'before', row.bytes_before);
    add(row.dtype_after, 'after', Math.max(0, row.bytes_after - row.scale_bytes));
  }
  if (totals.scale_bytes > 0) add('scales and other parts', 'after', totals.scale_bytes);
  for (const [key, name] of [['optimizer', 'optimizer states'], ['other', 'other tensors']])
    if (totals[key].before + totals[key].after > 0) { add(name, 'before', totals[key].before); add(name, 'after', totals[key].after); }
  const look = name => kindClass({'scales and other parts': 'scales', 'optimizer states': 'optimizer', 'other tensors': 'other'}[name] || name);
  const list = [...parts].filter(([, part]) => part.before + part.after > 0);
  const sum = side => list.reduce((total, [, part]) => total + part[side], 0), whole = Math.max(sum('before'), sum('after'), 1);
  const bar = side => stack(side, list.map(([name, part]) => ({name, value: part[side], look: look(name)})), whole, bytes(sum(side)));
  section('What the bytes are', 'Values by the type that they are stored in, without the headers of the file. Exact.', el('div', {class: 'bars'}, bar('before'), bar('after')),
    plainTable('bytes by type', ['part', '>before', '>after', '>share'], list.map(([name, part]) => [[swatch(look(name)), name], bytes(part.before), bytes(part.after), percent(part.after, sum('after') || 1)])),
    totals.device.dequantized !== totals.device.native && note(`On a device ${bytes(totals.device.native)} with kernels that compute on codes; ${bytes(totals.device.dequantized)} with a loader that turns codes back into the type of the source.`));
}

function reportTensors(document) {
  const pruned = document.totals.pruning !== null, measured = document.tensors.some(row => row.measured);
  const fate = row => !changedActions.has(row.action) ? row.action + (row.reason ? ': ' + row.reason : '')
    : [row.dtype_before, ...row.steps.map(step => step.scheme || step.dtype)].filter((part, k, all) => part && part !== all[k - 1]).join(' → ');
  const table = explorer({label: 'tensors', rows: document.tensors, name: row => row.name, sorted: measured && document.totals.sqnr_db !== null ? [5, false] : null, kind: row => [row.action, row.dtype_before, row.dtype_after, row.scheme, row.reason, row.shape].join(),
    columns: [
      {title: 'shape', value: row => shape(row.shape)},
      {title: 'type', value: fate, long: true},
      {title: 'before', figure: true, fold: 'sum', value: row => row.bytes_before, show: bytes},
      {title: 'after', figure: true, fold: 'sum', value: row => row.bytes_after, show: bytes},
      {title: 'smaller', figure: true, fold: 'least', value: row => row.ratio, show: times},
      measured && {title: 'SQNR', figure: true, fold: 'least', value: row => row.measured ? row.measured.exact ? Infinity : row.measured.sqnr_db : NaN,
        show: value => value === Infinity ? 'exact' : decibel(value), look: value => value === Infinity ? '' : 'edge ' + errorClass(10 ** (-value / 20))},
      measured && {title: 'largest error', figure: true, fold: 'most', value: row => row.measured ? row.measured.max_abs_error : NaN, show: real},
      measured && pruned && {title: 'zeros', figure: true, fold: 'most', value: zerosOf, show: value => [percent(value), meter(value)]},
      measured && document.tensors.some(row => row.measured && row.measured.clipped > 0) && {title: 'clipped', figure: true, fold: 'sum', value: row => row.measured ? row.measured.clipped : NaN},
    ].filter(Boolean)});
  const mapOf = (title, lead, look, said, key) => section(title, lead, treemap(title, document.tensors.map(row => ({name: row.name, bytes: row.bytes_before, look: look(row), said: said(row)})), table.search), key);
  if (measured && document.totals.sqnr_db !== null) {
    mapOf('Where the error is', 'Areas are bytes before, colours the error of each tensor; grey tensors are as they were. A click looks the tensor up.',
      row => row.measured ? errorClass(relativeOf(row.measured)) : 'none', row => `${bytes(row.bytes_before)} → ${bytes(row.bytes_after)}, ${row.measured ? 'SQNR ' + sqnr(row.measured) : row.action}`, errorRamp());
  }
  if (measured && pruned) {
    mapOf('Where the zeros are', 'Areas are bytes before, colours the share of zeros afterwards; grey tensors were not looked at.', row => zeroClass(zerosOf(row)), row => `${bytes(row.bytes_before)}, zeros ${percent(zerosOf(row))}`, zeroRamp());
  }
  if (!measured) {
    mapOf('What is large', 'Areas are bytes before, colours types afterwards.', row => kindClass(row.dtype_after), row => `${bytes(row.bytes_before)} → ${bytes(row.bytes_after)}`);
  }
  section('Tensors', (measured && document.totals.sqnr_db !== null ? 'The worst first. ' : '') + 'Groups of names that differ in their numbers show sums and the worst of their tensors.', table.node);
}

function reportRemoval(removal) {
  if (!removal) return;
  section('Units that were removed', removal.multiply_adds && `Multiply-adds with ${clean(removal.multiply_adds.inputs)}: ${short(removal.multiply_adds.before)} before, ${short(removal.multiply_adds.after)} after.`, explorer({
    label: 'groups of units', head: 'group', unit: 'group', rows: removal.groups, name: row => row.name, columns: [
      {title: 'kind', value: row => row.kind}, {title: 'before', figure: true, fold: 'sum', value: row => row.before}, {title: 'after', figure: true, fold: 'sum', value: row => row.after},
      {title: 'removed', figure: true, fold: 'most', value: row => row.before > 0 ? 1 - row.after / row.before : 0, show: value => [percent(value), meter(value)]},
      {title: 'why not', long: true, value: row => row.reason}]}).node);
}

function reportTargets(fits) {
  if (!fits || fits.length === 0) return;
  const answer = (change, fit) => [change.weights_only && fit.verdict === 'fits' ? verdict('weights fit') : verdict(fit.verdict), ' ' + headroom(fit.headroom_bytes)];
  section('Before and after on devices', 'Inference of one input, with what the runtime of a device takes and a margin; codes as the program that usually reads such files loads them.',
    plainTable('devices that were asked about', ['device', '>usable', 'before', 'after'], fits.map(change =>
      [clean(change.gpu) + (change.count > 1 ? ` × ${change.count}, each` : ''), bytes(change.after.usable_bytes), answer(change, change.before), answer(change, change.after)])));
}

function reportFiles(document) {
  const files = document.outputs.map(output => [nameOf(output.path || 'standard output'), clean(output.format || ''), isNumber(output.file_bytes) ? bytes(output.file_bytes) : '–', output.written ? 'written' : 'not written',
    output.layout ? [clean(output.layout.name), output.layout.loader && ', for ' + clean(output.layout.loader), output.layout.needs && ': ' + clean(output.layout.needs)] : '']);
  section('Files', null, plainTable('files', ['file', 'format', '>bytes', 'state', 'layout'], [[nameOf(document.input.path), clean(document.input.format || ''), bytes(document.input.file_bytes), 'input', ''], ...files]),
    document.files.length > 0 && plainTable('digests', ['file', '>bytes', 'SHA-256'], document.files.map(file => [nameOf(file.path), bytes(file.bytes), el('code', {}, clean(file.sha256))])),
    document.notes.map(one => note(clean(one.text))));
}

function viewReport(document) {
  reportHero(document);
  reportComponents(document);
  reportTensors(document);
  histograms(document);
  reportRemoval(document.removal);
  for (const distillation of document.distillations || []) distillSections(distillation);
  reportTargets(document.fit);
  gpusSection(document.gpus);
  reportFiles(document);
}

// ---- distill ----

// The figure of each task: the first one that was measured is what a student is judged by.
const FIGURES = [['accuracy', 'of the answers are right', percent], ['f1', 'F1 of all yes', percent], ['r2', 'R2 of y', real], ['cosine', 'mean cosine with y', real], ['agreement', 'of the teacher’s answers', percent]];
// What y of floats is compared by: columns that are there where they were measured.
const OF_Y = [['R2', 'r2', real], ['mean absolute error', 'absolute_error', real], ['mean IoU', 'iou', percent], ['exact match', 'exact_match', percent], ['F1', 'f1', percent], ['cosine', 'cosine', real]];

function viewDistill(document) {
  const {run, options, eval: judged} = document;
  const [key, says, write] = FIGURES.find(([key]) => judged && isNumber(judged.before[key])) || ['agreement'];
  const answer = quality => quality[key];
  const trained = judged && !options.dry_run && isNumber(answer(judged.after));
  const missed = document.missed && note(badge('no', '✕ missed'), ' ', clean(document.missed), '; nothing was written');
  section(null, null, trained && hero('', write(answer(judged.after)), `${says}${(judged.before.outputs || []).length > 0 ? ' (the worst output)' : ''}, ${write(answer(judged.before))} before`,
    write === percent && el('div', {class: 'bars'}, beforeAfter(answer(judged.before), answer(judged.after), percent))), tiles([
    ['task', run.task && run.task !== 'auto' ? run.task : null],
    [options.dry_run ? 'steps planned' : 'steps', count(run.steps)], ['rows of a step', count(run.batch * run.accum)], ['weights that are trained', short(run.weights)],
    ['loss at the end', real(run.last_loss), isNumber(run.first_loss) ? real(run.first_loss) + ' at the beginning' : null], ['weights that stay 0', run.masked ? short(run.masked) : null],
    ['sparsity at the end', document.pruning && isNumber(document.pruning.zeros_after) ? percent(document.pruning.zeros_after, document.pruning.weights) : null],
    ['weights that codes say', document.grid ? short(document.grid.weights) : null, document.grid && clean(document.grid.scheme)],
    ['values while it trains', ['bf16', 'fp16'].includes(options.precision) ? options.precision : null, isNumber(run.skipped_steps) && 'steps left out: ' + count(run.skipped_steps)]]), missed);
  distillSections(document);
}

function distillSections(document) {
  const {eval: judged, options, memory} = document, steps = document.steps || [];
  if (judged && !options.dry_run) {
    const rows = [['teacher', judged.teacher], ['student before', judged.before], ['student after', judged.after], ['control: labels, no teacher', judged.control]].filter(([, quality]) => quality);
    const measure = {mse: 'squared error', cosine: '1 − cosine', huber: 'Huber loss', reverse: 'reverse divergence', js: 'Jensen-Shannon divergence'}[options.loss] || 'divergence';
    const more = OF_Y.filter(([, key]) => rows.some(([, quality]) => isNumber(quality[key])));
    section('Before and after', 'Judged by the rows of the evaluation; cross-entropy and divergence in nats per row.', plainTable('quality of teacher and student', ['', '>accuracy', '>cross-entropy', '>agreement', '>' + measure, ...more.map(([name]) => '>' + name)],
      rows.map(([name, quality]) => [name, percent(quality.accuracy), real(quality.cross_entropy), percent(quality.agreement), real(quality.divergence), ...more.map(([, key, write]) => write(quality[key]))])), outputsTable(rows),
    judged.control && isNumber(judged.gain) && note(`The teacher is worth ${(100 * judged.gain).toFixed(2)} points, with a standard error of ${(100 * judged.gain_error).toFixed(2)}.`));
    if (judged.steps && judged.steps.length > 1) section('Evaluations on the way', null, curves('quality over the steps', [['accuracy', 'accuracy', 'k0'], ['agreement', 'agreement', 'k3'], ['F1', 'f1', 'k2'], ['mean IoU', 'iou', 'k12']].map(([name, key, look]) =>
      ({name, look, points: judged.steps.map(one => [one.step, one[key]])})).filter(line => line.points.some(([, y]) => isNumber(y))), {yText: percent}),
      OF_Y.filter(([, key, write]) => write === real && judged.steps.some(one => isNumber(one[key]))).map(([name, key]) =>
        curves(name + ' over the steps', [{name, look: 'k0', points: judged.steps.map(one => [one.step, one[key]])}], {yText: real, height: 220})));
  }
  const line = (name, look, value) => ({name, look, points: steps.map(step => [step.step, value(step)])});
  const draw = (title, lead, series, more) => { const figure = curves(title, series, more); if (figure && steps.length > 1) section(title, lead, figure); };
  const mixed = options.alpha > 0 && options.alpha < 1;
  draw('The loss', 'Before each step.', [line('loss', 'k0', step => step.loss), ...(mixed ? [line('teacher’s term', 'k4', step => step.kd), line('cross-entropy', 'k3', step => step.ce)] : [])]);
  if (document.matches && steps.some(step => step.matches.length > 0)) section('Values inside', 'How far they are from the teacher’s, before each step: the terms of the loss without their weights.', curves('terms of the loss',
    document.matches.map((match, k) => line(`${clean(match.teacher)} = ${clean(match.student)} (${match.kind}, weight ${real(match.weight)})`, 'k' + [4, 3, 2, 6, 7, 12][k % 6], step => step.matches[k]))));
  draw('Sparsity', 'Of the tensors that are pruned on the way.', [line('zeros', 'k2', step => step.sparsity)], {yText: percent, zero: true, height: 200});
  draw('Learning rate', null, [line('learning rate', 'k12', step => step.lr)], {height: 180, zero: true});
  draw('Norm of the gradients', 'Of all gradients together, before clipping.', [line('norm', 'k2', step => step.grad_norm)], {height: 200});
  const parts = [['weights', memory.weights, 'weights'], ['gradients', memory.gradients, 'gradients'], ['optimizer states', memory.states, 'optimizer'], ['teacher’s weights', memory.teacher, 'teacher'], ['activations', memory.arena, 'activations']].filter(([, value]) => value > 0);
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  section('Memory', `What a step takes, in blocks that are planned before the first one; the peak of the run was ${bytes(memory.peak || memory.planned)}.`, stack('a step', parts.map(([name, value, kind]) => ({name, value, look: kindClass(kind)})), whole, bytes(whole)),
    legend(...parts.map(([name, value, kind]) => [kindClass(kind), `${name} ${bytes(value)}`])));
  if (document.zeros && document.zeros.length > 0) section('Tensors with zeros', null, explorer({label: 'tensors with zeros', rows: document.zeros, name: row => row.tensor, columns: [
    {title: 'weights', figure: true, fold: 'sum', value: row => row.weights}, {title: 'zeros before', figure: true, fold: 'sum', value: row => row.before}, {title: 'zeros after', figure: true, fold: 'sum', value: row => row.after},
    {title: 'share', figure: true, fold: 'most', value: row => isNumber(row.after) && row.weights > 0 ? row.after / row.weights : NaN, show: value => [percent(value), meter(value)]}]}).node);
}

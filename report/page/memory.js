'use strict';
// memory.js - estimate, fit, plan, shrink: what a run needs, when, and where it fits; graph: what is computed, and its costs.

// States lie below what comes and goes.
const moving = ['activations', 'transient', 'inputs'];
const stackOrder = keys => [...keys.filter(key => !moving.includes(key)), ...keys.filter(key => moving.includes(key))];

function componentsSection(components, title, lead) {
  const list = Object.entries(components).map(([key, part]) => ({key, bytes: isNumber(part) ? part : part && part.bytes, known: part && part.known}));
  const used = list.filter(part => part.bytes !== 0), whole = used.reduce((sum, part) => sum + (part.bytes || 0), 0);
  section(title, lead, stack('with all that a device holds', used.map(part => ({name: componentName(part.key), value: part.bytes || 0, look: kindClass(part.key)})), whole, bytes(whole)),
    plainTable('components', ['component', '>bytes', '>share', 'known'], used.map(part => [
      [swatch(kindClass(part.key)), componentName(part.key)], isNumber(part.bytes) ? bytes(part.bytes) : 'unknown',
      isNumber(part.bytes) ? percent(part.bytes, whole) : '', part.known || ''])));
}

function timelineSection(t) {
  if (!t || t.points.length < 2) return;
  const trains = t.backward < t.steps;
  const present = new Set(t.points.flatMap(point => Object.keys(point)));
  present.delete('step');
  const keys = stackOrder([...present].filter(key => trains || moving.includes(key)));
  const sums = t.points.map(point => keys.reduce((sum, key) => sum + (point[key] || 0), 0));
  const highest = sums.reduce((a, b) => Math.max(a, b), 1);
  const peak = t.points[t.peak];
  const nameAt = (i, room) => t.operators && (t.operators[i] || trains) ? ' at ' + fitted(t.operators[i] || 'the loss', room) : '';
  const picture = drawing(`memory over ${count(t.steps)} steps; at most ${bytes(highest)}`, width => {
    const height = 320;
    const {x, y, parts, box} = frame(width, height, {x0: 1, x1: t.steps, y0: 0, y1: highest * 1.04, xTitle: 'step', yText: bytes, yTicks: byteTicks(highest * 1.04, 5)});
    const below = t.points.map(() => 0);
    const areas = keys.map(key => {
      const lower = t.points.map((point, i) => [x(point.step + 1), y(below[i])]);
      t.points.forEach((point, i) => { below[i] += point[key] || 0; });
      const upper = t.points.map((point, i) => [x(point.step + 1), y(below[i])]);
      const line = places => places.map(place => place[0].toFixed(1) + ' ' + place[1].toFixed(1)).join('L');
      return svg('path', {class: kindClass(key), d: `M${line(upper)}L${line(lower.reverse())}Z`});
    });
    const at = x(peak.step + 1), most = 'peak ' + bytes(highest);
    const marks = [svg('path', {class: 'peak', d: `M${at} ${box.top}V${box.bottom}`}),
      svg('text', {class: 'tick', x: at > width / 2 ? at - 5 : at + 5, y: box.top - 3, 'text-anchor': at > width / 2 ? 'end' : 'start'}, most + nameAt(t.peak, Math.max(at, width - at) - inked(most + ' at ') - 8))];
    if (trains) marks.push(svg('path', {class: 'phase', d: `M${x(t.backward)} ${box.top}V${box.bottom}`}),
      svg('text', {class: 'tick', x: x(t.backward) - 6, y: box.top + 14, 'text-anchor': 'end'}, '← forward'),
      svg('text', {class: 'tick', x: Math.max(x(t.backward), at) + 6, y: box.top + 14}, 'backward →'));
    const drawn = canvas(width, height, parts, areas, marks);
    follow(drawn, box, height, place => {
      const i = t.points.reduce((best, point, k) => Math.abs(x(point.step + 1) - place) < Math.abs(x(t.points[best].step + 1) - place) ? k : best, 0);
      return {x: x(t.points[i].step + 1), lines: [`step ${count(t.points[i].step + 1)}${nameAt(i, Math.min(260, width - 160))}: ${bytes(sums[i])}`,
        ...keys.filter(key => t.points[i][key]).map(key => `${componentName(key)} ${bytes(t.points[i][key])}`)]};
    });
    return drawn;
  });
  section(trains ? 'Memory over one training step' : 'Memory over one run', trains
    ? 'What lives at each operation: states below, values that come and go above.'
    : 'Values that come and go at each operation; weights and the rest are there all the time.',
  el('figure', {}, picture, legend(...keys.map(key => [kindClass(key), componentName(key)]))), fullest(t, sums));
}

// The operations at which most memory is in use, one for each name.
function fullest(t, sums) {
  if (!t.operators) return null;
  const best = new Map();
  t.points.forEach((point, i) => { const name = t.operators[i] || (t.backward < t.steps ? 'the loss' : ''); if (name && !(sums[i] <= sums[best.get(name)])) best.set(name, i); });
  const list = [...best.values()].sort((a, b) => sums[b] - sums[a]).slice(0, 6);
  return list.length > 1 && plainTable('fullest operations', ['the fullest operations', '>step', '>in use'], list.map(i => [nameOf(t.operators[i] || 'the loss'), count(t.points[i].step + 1), bytes(sums[i])]));
}

function gpusSection(gpus) {
  if (!gpus || gpus.rows.length === 0) return;
  const fitsAll = row => row.fits.every(fit => fit.verdict === 'fits' || fit.verdict === 'weights fit');
  let n = gpus.rows.length;
  while (n > 2 && fitsAll(gpus.rows[n - 1]) && fitsAll(gpus.rows[n - 2])) n--;
  const lead = gpus.weights_only
    ? 'The weights alone, with what the runtime of a device takes and a margin. What is computed with them needs more: vcompress fit.'
    : 'All that the run needs, with what the runtime of a device takes and a margin, by the type that the weights are loaded as.';
  if (fitsAll(gpus.rows[0])) {
    section('Where it fits', lead, el('p', {}, badge('yes', '✓ fits'), ` every GPU of the list, from ${clean(gpus.rows[0].gpu)} (${bytes(gpus.rows[0].visible_bytes)}) on.`));
    return;
  }
  section('Where it fits', lead, scroll('GPUs and types', el('table', {class: 'matrix'},
    el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'GPU'), gpus.columns.map(column =>
      el('th', {scope: 'col'}, clean(column.name), el('small', {}, bytes(column.weight_bytes)))))),
    el('tbody', {}, gpus.rows.slice(0, n).map(row => el('tr', {}, el('th', {scope: 'row'}, clean(row.gpu), el('small', {}, bytes(row.visible_bytes))),
      row.fits.map(fit => {
        const [look, text] = verdictLooks[fit.verdict] || ['maybe', fit.verdict];
        return el('td', {}, el('span', {class: 'answer ' + look}, el('b', {}, text), headroom(fit.headroom_bytes)));
      })))))), n < gpus.rows.length && note('Larger GPUs fit all of them, too.'));
}

// Whether an option changed anything: those of several devices, of pipelines and of ZeRO are there for one device, too.
function matters(key, options) {
  const many = name => options[name] > 1;
  const rules = {dp: many('dp'), tp: many('tp'), pp: many('pp'), ep: many('ep'), micro_batches: many('micro_batches'), chunks: many('chunks'), schedule: many('pp'),
    bucket_elems: options.zero > 0 || many('dp'), offload: options.offload !== 'none', amp: options.amp !== 'none', recompute: options.recompute !== 'none', every: options.every > 0,
    optimizer: options.mode === 'train', trainer: options.mode === 'train', foreach: options.mode === 'train' && options.optimizer !== 'sgd'};
  return !(key in rules) || rules[key];
}

const peakOf = document => document.moments && document.moments.peak && document.moments.peak.bytes;

function runSections(document) {
  timelineSection(document.timeline);
  componentsSection(document.components, 'What it is made of', 'Exact figures follow from sizes; modelled figures from how the trainer or the runtime works; assumed figures are typical.');
  section('Moments', 'The memory that is in use at each moment.', plainTable('moments', ['moment', '>bytes', 'known'],
    Object.entries(document.moments).map(([key, part]) => [key, isNumber(part.bytes) ? bytes(part.bytes) : 'unknown', part.known])));
  if (document.layers && document.layers.length > 0) {
    section('Layers', 'Bytes of weights, activations at the peak (in training: kept for the backward pass), all outputs.', explorer({
      label: 'layers', head: 'layer', unit: 'layer', rows: document.layers, name: row => row.name, columns: [
        {title: 'parameters', figure: true, fold: 'sum', value: row => row.parameters, show: short},
        {title: 'weights', figure: true, fold: 'sum', value: row => row.weight_bytes, show: bytes},
        {title: 'activations', figure: true, fold: 'sum', value: row => row.activation_bytes, show: bytes},
        {title: 'outputs', figure: true, fold: 'sum', value: row => row.output_bytes, show: bytes}]}).node);
  }
  gpusSection(document.gpus);
  const options = Object.entries(document.options).filter(([key, value]) => value !== null && value !== false && value !== 0 && value !== '' && matters(key, document.options));
  section('What was assumed', null, plainTable('options', ['option', 'value'], [...Object.entries(document.sizes || {}).map(([key, value]) => [clean(key), count(value)]),
    ...options.map(([key, value]) => [componentName(key), clean(value)])]));
}

function viewEstimate(document) {
  const peak = peakOf(document), known = isNumber(peak) && !document.unknown;
  const weights = document.components.parameters.bytes;
  section(null, null, hero('', bytes(known ? peak : weights), known
    ? `at the peak, for ${document.options.mode === 'infer' ? 'one run' : document.options.mode === 'train' ? 'training' : 'distillation'}`
    : `of weights; what is computed with them is not known: ${clean(document.unknown)}${document.unknown_name ? ' ' + clean(document.unknown_name) : ''}`,
  tiles([['parameters', short(document.model.parameters)], ['trained', document.model.trained ? short(document.model.trained) : null],
    ['weights', bytes(weights)], ['multiply-adds', document.multiply_adds.forward ? short(document.multiply_adds.forward) : null],
    ['largest at', document.arena.peak_at && clean(document.arena.peak_at)]])));
  runSections(document);
}

function viewFit(document) {
  const first = document.devices.find(row => row.verdict !== 'fits') || document.devices[0], yes = document.devices.every(row => row.verdict === 'fits');
  if (!first) {
    section(null, null, hero('no', 'no', 'no GPU of the catalogue is large enough'));
    return runSections(document);
  }
  const device = row => (row.gpu ? clean(row.gpu) : 'a device') + (row.count > 1 ? ` × ${row.count}, each` : '');
  section(null, null, hero((verdictLooks[first.verdict] || ['maybe'])[0], first.verdict === 'does not fit' ? 'no' : clean(first.verdict), `${device(first)}: ${headroom(first.headroom_bytes)}`,
    beforeAfterNeed(first)),
  plainTable('devices', ['device', 'answer', '>need', '>usable', '>left or short', '>largest'], document.devices.map(row => [device(row), verdict(row.verdict),
    bytes(row.need_bytes), bytes(row.usable_bytes), headroom(row.headroom_bytes),
    [isNumber(row.max_batch) && `largest batch ${count(row.max_batch)}`, isNumber(row.max_ctx) && `largest context ${count(row.max_ctx)}`,
      isNumber(row.max_gpu_layers) && `${row.max_gpu_layers} of ${row.layers} layers`].filter(Boolean).join(', ')])),
  !yes && document.unknown && note('Not known: ', clean(document.unknown)));
  if (document.baseline) {
    section('Before and now', `The peak beside the peak of ${clean(document.baseline)}.`, el('div', {class: 'bars'}, beforeAfter(document.baseline_bytes, peakOf(document) || first.peak_bytes, bytes)));
  }
  runSections(document);
}

function beforeAfterNeed(row) {
  const whole = Math.max(row.need_bytes, row.usable_bytes);
  return el('div', {class: 'bars'}, stack('need', [{name: 'the run', value: row.peak_bytes, look: kindClass('activations')}, {name: 'runtime of the device', value: row.context_bytes, look: kindClass('context')},
    {name: 'fragmentation', value: row.slack_bytes, look: kindClass('slack')}], whole, bytes(row.need_bytes)),
  stack('usable', [{name: 'usable', value: row.usable_bytes, look: 'before'}], whole, bytes(row.usable_bytes)));
}

function viewPlan(document) {
  const best = document.best === null ? null : document.recipes[document.best];
  section(null, null, hero(best ? 'yes' : document.unknown ? 'maybe' : 'no', best ? 'fits' : 'no', best ? `with: ${clean(best.what)}` : document.unknown ? `not known: ${clean(document.unknown)}` : 'no recipe fits for certain',
    tiles([['device', document.gpu && clean(document.gpu)], ['usable', bytes(document.usable_bytes)], ['need', best && bytes(best.need_bytes), best && headroom(best.headroom_bytes)],
      ['time', best && times(best.time)]])), best && best.commands.map(command));
  section('Recipes', 'What each needs and loses; the error is the share of the weights’ RMS that changes.', explorer({
    label: 'recipes', head: 'recipe', unit: 'recipe', grouped: false, rows: document.recipes, name: row => row.what, columns: [
      {title: 'answer', value: row => row.verdict, show: verdict},
      {title: 'need', figure: true, value: row => row.need_bytes, show: bytes},
      {title: 'left or short', figure: true, value: row => row.headroom_bytes, show: headroom},
      {title: 'error', figure: true, value: row => row.error, show: value => value === 0 ? '0' : percent(value), look: row => '' },
      {title: 'known', value: row => row.error_known},
      {title: 'time', figure: true, value: row => row.time, show: times},
      {title: 'batch', figure: true, value: row => row.batch}, {title: 'parts', figure: true, value: row => row.accumulate}]}).node);
  const needed = Math.max(...document.recipes.map(row => row.need_bytes)), usable = document.usable_bytes || 0;
  const most = needed > usable / 4 ? Math.max(needed, usable) : needed;
  if (document.recipes.length > 1) {
    section('What each needs', document.usable_bytes ? `Of ${bytes(document.usable_bytes)} that are usable.` : null, el('div', {class: 'bars'}, document.recipes.map(row => {
      const parts = stackOrder(Object.keys(row.components)).map(key => ({name: componentName(key), value: row.components[key] || 0, look: kindClass(key)}));
      const rest = row.need_bytes - parts.reduce((sum, part) => sum + part.value, 0);
      return stack(clean(row.what), [...parts, {name: 'not told apart', value: Math.max(0, rest), look: 'none'}], most, bytes(row.need_bytes));
    })),
    legend(...stackOrder(Object.keys(document.recipes[0].components)).filter(key => document.recipes.some(row => row.components[key])).map(key => [kindClass(key), componentName(key)])));
    const cloud = scatter('need against error', document.recipes.map(row => ({name: row.what, x: row.need_bytes, y: row.error, look: row.verdict === 'fits' ? 'yes' : 'no'})),
      {xTitle: 'need', yTitle: 'error', yText: percent, usual: USUAL});
    if (cloud) section('Need against error', 'Recipes without any error are not drawn: their error is 0.', cloud);
  }
  if (document.recipes.some(row => row.commands.length > 0)) {
    section('Command lines', null, document.recipes.filter(row => row.commands.length > 0).map((row, k) => el('details', {open: k === 0}, el('summary', {}, clean(row.what)), row.commands.map(command))));
  }
}

function viewShrink(document) {
  const best = document.chosen === null ? null : document.candidates[document.chosen], proof = document.proof;
  const cost = row => document.weights_only ? row.error : row.divergence;
  section(null, null, hero(document.missed ? 'no' : '', document.missed ? 'no' : proof ? times(document.input_bytes / proof.output_bytes) : 'planned', document.missed ? clean(document.missed) : `with: ${clean(best.name)}`,
    tiles([['before', bytes(document.input_bytes)], ['after', proof && bytes(proof.output_bytes), proof && times(document.input_bytes / proof.output_bytes) + ' smaller'],
      ['need', proof && proof.need_bytes && bytes(proof.need_bytes), proof && proof.verdict],
      ['loss', proof && isNumber(proof.loss) && (['mae', 'mse', 'cross-entropy'].includes(proof.metric) ? real : percent)(proof.loss), proof && proof.rows && `on ${count(proof.rows)} rows that steered nothing`]])), document.note && el('p', {}, clean(document.note)));
  const outputs = proof && proof.rows && outputsTable([['model', proof.teacher], ['output', proof.output]]);
  if (outputs) section('The proof', 'By rows that steered nothing: the figure of each output.', outputs);
  section('Candidates', 'In the order in which they were tried.', explorer({
    label: 'candidates', head: 'candidate', unit: 'candidate', grouped: false, rows: document.candidates, name: row => row.name, sub: row => row.reason && el('span', {class: 'sub'}, ' ' + clean(row.reason)), columns: [
      {title: 'within', value: row => row.within === null ? '' : row.within ? 'yes' : 'no'}, {title: 'front', value: row => row.front ? 'yes' : 'no'},
      {title: 'size', figure: true, value: row => row.file_bytes, show: bytes}, {title: 'memory', figure: true, value: row => row.need_bytes, show: bytes},
      {title: 'error', figure: true, value: row => row.error, show: value => percent(value)}, {title: 'loss', figure: true, value: row => row.loss, show: value => percent(value)},
      {title: 'divergence', figure: true, value: row => row.divergence, show: real}, {title: 'seconds', figure: true, value: row => row.seconds, show: real}]}).node);
  const cloud = scatter('size against loss', document.candidates.filter(row => row.file_bytes).map(row => ({name: row.name, x: row.file_bytes, y: cost(row), look: row.front ? 'yes' : 'no'})),
    {xTitle: 'size', yTitle: document.weights_only ? 'error' : 'divergence', yText: document.weights_only ? value => percent(value) : real});
  if (cloud) section('The front', 'No other candidate is both smaller and better than one of the front.', cloud);
  if (document.recipe) { // its first lines say which command makes the same bytes
    const lines = document.recipe.split('\n').filter(line => line);
    section('Recipe', 'The command makes the same bytes with these passes, which are the file of the recipe.', lines.filter(line => line.startsWith('# vcompress ')).map(line => command(line.slice(2))),
      el('pre', {}, lines.filter(line => !line.startsWith('#')).map(clean).join('\n')));
  }
}

const productOperators = new Set(['Conv', 'ConvTranspose', 'Gemm', 'MatMul', 'Attention', 'Einsum', 'LSTM', 'GRU', 'RNN']);
const movingOperators = new Set(['Reshape', 'Transpose', 'Concat', 'Slice', 'Split', 'Squeeze', 'Unsqueeze', 'Expand', 'Flatten', 'Identity', 'Gather', 'Pad', 'Cast', 'Shape', 'Tile']);

function viewGraph(document) {
  const {totals, blocks} = document;
  const macs = x => isNumber(x) ? short(x) : '–';
  section(null, null, hero('', short(totals.parameters), `parameters in ${plural(totals.nodes, 'node')}`, tiles([['multiply-adds', macs(totals.macs_value), document.sizes.map(size => `${clean(size.name)} ${size.size === null ? '?' : count(size.size)}`).join(', ')],
    ['active parameters', totals.active_parameters !== totals.parameters ? short(totals.active_parameters) : null], ['weights', isNumber(totals.bytes) ? bytes(totals.bytes) : null],
    ['experts', document.experts ? `${document.experts.per_token} of ${document.experts.count}` : null]])), document.notes.map(text => note(clean(text))));
  const values = document.values, shapeOf = k => k === null || k === undefined ? '' : clean(values[k].dtype) + ' ' + shape(values[k].shape);
  const tensorOf = new Map(document.parameters.map(parameter => [parameter.value, parameter.tensor]));
  const titleOf = row => row.outputs.length > 0 && row.outputs[0] !== null ? values[row.outputs[0]].name : row.name || row.op;
  const weightsOf = row => row.inputs.filter(k => tensorOf.has(k)).map(k => tensorOf.get(k)).join(', ');
  if (document.nodes.length > 0) {
    section('The network', 'Drag or use the arrows to move; the buttons, + and −, two fingers, or Ctrl and the wheel zoom. A node that is picked shows what it reads and who reads it.',
      networkView(document.nodes, {titleOf, weightsOf, shapeOf: row => shapeOf(row.outputs[0]), classOf: row => productOperators.has(row.op) ? 'w' : movingOperators.has(row.op) ? 'm' : 'f'}),
      legend(['n-w', 'products'], ['n-f', 'functions'], ['n-m', 'moved elements']));
  }
  const drawn = window.document.getElementById('drawing');
  if (drawn) { // on paper, and for who asks, all of it from top to bottom
    const box = drawn.firstElementChild;
    drawn.prepend(el('h2', {}, 'The computation'), el('p', {class: 'lead'}, 'Nodes in frames, which are the blocks; lines are values that skip what lies between, residuals among them. Of blocks that repeat, the first is drawn.'),
      el('details', {}, el('summary', {}, 'from top to bottom'), box));
    page().append(drawn);
  }
  const alike = blocks.map(() => 0);
  for (const block of blocks) alike[block.like]++;
  const times = i => i === null || i === undefined ? 1 : alike[i] * times(blocks[i].parent);
  const folded = blocks.map((block, i) => ({...block, n: times(i), i})).filter(block => block.n > 0 && block.i > 0);
  section('Blocks', 'Blocks that are alike share a line; shares are of the whole model.', explorer({label: 'blocks', head: 'block', unit: 'block', grouped: false, rows: folded, name: row => row.path || '(all)',
    sub: row => row.n > 1 && el('span', {class: 'sub'}, ` ×${row.n}`), columns: [
      {title: 'nodes', figure: true, value: row => row.nodes},
      {title: 'parameters, each', figure: true, value: row => row.parameters, show: short},
      {title: 'share', figure: true, value: row => row.n * row.parameters / (totals.parameters || 1), show: value => [percent(value), meter(value)]},
      {title: 'multiply-adds, each', figure: true, value: row => row.macs_value, show: macs},
      {title: 'share', figure: true, value: row => isNumber(row.macs_value) ? row.n * row.macs_value / (totals.macs_value || 1) : NaN, show: value => [percent(value), meter(value)]}]}).node);
  section('Nodes', null, explorer({label: 'nodes', head: 'output', unit: 'node', rows: document.nodes, name: titleOf,
    kind: row => row.op, columns: [
      {title: 'operator', value: row => row.op},
      {title: 'multiply-adds', value: row => row.macs, show: value => value === 0 ? '' : isNumber(value) ? short(value) : clean(value)},
      {title: 'block', value: row => blocks[row.block].path, show: nameOf},
      {title: 'output', value: row => shapeOf(row.outputs[0])},
      {title: 'weights', value: weightsOf, show: nameOf}]}).node);
  const ends = (title, list) => plainTable(title, [title, 'type', 'shape'], list.map(k => [nameOf(values[k].name), clean(values[k].dtype), shape(values[k].shape)]));
  section('Inputs and outputs', null, ends('input', document.inputs), ends('output', document.outputs));
}

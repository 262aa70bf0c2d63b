'use strict';
// start.js - reads the document and shows it by its schema.

const views = {
  report: viewReport, inspect: viewInspect, sensitivity: viewSensitivity, diff: viewDiff, verify: viewVerify, distill: viewDistill,
  estimate: viewEstimate, fit: viewFit, plan: viewPlan, graph: viewGraph, changes: viewChanges, shrink: viewShrink,
};

function start() {
  const text = document.getElementById('document').textContent, found = JSON.parse(text);
  const kind = /^vcompress\.(\w+)\//.exec(found.schema || ''), schema = kind ? kind[1] : 'document';
  const file = found.file ? found.file : found.input ? found.input.path : found.model && found.model.path || found.model || found.student || found.a && found.a.path;
  const word = schema === 'report' && found.command ? found.command.split(' ')[0] : schema;
  build(document.getElementById('head'), {}, [el('p', {class: 'mark'}, el('b', {}, 'vcompress'), el('span', {}, clean(word))), el('h1', {}, typeof file === 'string' ? base(file) : 'vcompress'),
    schema === 'diff' || schema === 'changes' ? el('p', {class: 'about'}, 'and ', nameOf(base(found.b.path))) : null]);
  if (views[schema]) views[schema](found);
  else section('A document without a view', null, el('pre', {}, clean(JSON.stringify(found, null, 1))));
  const tool = found.tool || (found.version ? 'vcompress ' + found.version : '');
  build(document.getElementById('foot'), {}, [
    found.command_line && command(found.command_line),
    el('p', {}, tool && `Made by ${clean(tool)}. `, 'KiB, MiB and GiB are powers of two. ', el('a', {href: '#', click: event => { event.preventDefault(); save(text, word); }}, 'Save the document'), ' as JSON.')]);
  addEventListener('keydown', event => {
    const search = document.querySelector('input[type=search]');
    if (event.key === '/' && search && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); search.focus(); search.scrollIntoView({block: 'center'}); }
  });
  addEventListener('beforeprint', () => { for (const part of document.querySelectorAll('details')) part.open = true; });
  document.documentElement.dataset.ready = 'yes';
}

function save(text, word) {
  const link = el('a', {href: URL.createObjectURL(new Blob([text], {type: 'application/json'})), download: word + '.json'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

start();

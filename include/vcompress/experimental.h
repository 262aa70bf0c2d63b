/* experimental.h - the whole library in one include: vcompress.h and the experimental headers.
 *
 * Experimental are: graphs, everything computed from a graph (memory, fit, plans, couplings, structured pruning),
 * distillation, adapters, measures and pages. These parts are tested like the stable parts, and their files keep their meaning.
 * Names, fields and functions may change with a minor version: recompile a program that uses them. */
#ifndef VCOMPRESS_EXPERIMENTAL_H
#define VCOMPRESS_EXPERIMENTAL_H

#include <vcompress/calibrate.h>
#include <vcompress/couplings.h>
#include <vcompress/depth.h>
#include <vcompress/distill.h>
#include <vcompress/fit.h>
#include <vcompress/gpus.h>
#include <vcompress/graph.h>
#include <vcompress/inspect.h>
#include <vcompress/measure.h>
#include <vcompress/memory.h>
#include <vcompress/merge.h>
#include <vcompress/page.h>
#include <vcompress/plan.h>
#include <vcompress/ranks.h>
#include <vcompress/remote.h>
#include <vcompress/sensitivity.h>
#include <vcompress/shrink.h>
#include <vcompress/structured.h>
#include <vcompress/vcompress.h>
#include <vcompress/word.h>

#endif

/* experimental.h - all of the library in one include: vcompress.h, and the headers that are experimental.
 *
 * Experimental is what is young: graphs and what is worked out from them (memory, fit, plans, couplings, structured
 * pruning), distillation, measures, pages. It is tested as the rest is, and its files keep their meaning; but names,
 * fields and functions may change with a minor version, so a program that uses it is compiled anew then. */
#ifndef VCOMPRESS_EXPERIMENTAL_H
#define VCOMPRESS_EXPERIMENTAL_H

#include <vcompress/couplings.h>
#include <vcompress/depth.h>
#include <vcompress/distill.h>
#include <vcompress/fit.h>
#include <vcompress/gpus.h>
#include <vcompress/graph.h>
#include <vcompress/inspect.h>
#include <vcompress/measure.h>
#include <vcompress/memory.h>
#include <vcompress/page.h>
#include <vcompress/plan.h>
#include <vcompress/ranks.h>
#include <vcompress/sensitivity.h>
#include <vcompress/structured.h>
#include <vcompress/vcompress.h>

#endif

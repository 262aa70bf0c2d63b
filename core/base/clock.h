/* clock.h - seconds, for reports, progress and limits of waiting. */
#ifndef VC_CORE_CLOCK_H
#define VC_CORE_CLOCK_H

/* From some moment on; never goes back. */
double vc_seconds(void);

#endif

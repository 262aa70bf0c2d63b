/* clock.h - seconds, for reports and for how long ranks wait. */
#ifndef VC_DISTILL_CLOCK_H
#define VC_DISTILL_CLOCK_H

double vc_seconds(void);

#endif

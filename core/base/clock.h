/* clock.h - seconds, for reports, progress and limits of waiting. */
#pragma once

/* From some moment on; never goes back. */
double vc_seconds(void);

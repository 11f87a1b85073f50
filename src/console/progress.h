/*
 * progress.h - a progress bar on standard error, on terminals only
 */
#ifndef HTH_CONSOLE_PROGRESS_H
#define HTH_CONSOLE_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Owned by the caller. Several threads may draw and clear the bar. */
typedef struct hth_progress {
    pthread_mutex_t lock;
    bool enabled; /* standard error is a terminal, and the user wants the bar */
    bool shown;
    uint64_t drawn_ns;
} hth_progress;

void hth_progress_init(hth_progress *progress, bool wanted);
/* Draw "label [=====>    ] 45%  detail"; the first time at once, then at most ten times a second. */
void hth_progress_draw(hth_progress *progress, const char *label, double fraction, const char *detail);
/* Draw a line of text instead of the bar, with the same limit. */
void hth_progress_say(hth_progress *progress, const char *text);
/* Clear the bar, so that the next output begins on a clean line. */
void hth_progress_end(hth_progress *progress);

#endif

/*
 * progress.h - a bar on standard error for work that takes a while, on terminals only
 */
#ifndef HTH_CLI_PROGRESS_H
#define HTH_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Owned by the caller. Drawing and wiping may come from several threads. */
typedef struct hth_progress {
    pthread_mutex_t lock;
    bool enabled; /* standard error is a terminal and the user wants to see */
    bool shown;
    uint64_t begin_ns;
    uint64_t drawn_ns;
} hth_progress;

void hth_progress_init(hth_progress *progress, bool wanted);
/* Draw "label [=====>    ] 45%  detail"; at most ten times a second, and not in the first 200 ms of the work. */
void hth_progress_draw(hth_progress *progress, const char *label, double fraction, const char *detail);
/* Draw a line of text in its place, as often. */
void hth_progress_say(hth_progress *progress, const char *text);
/* Wipe the bar, so that what is printed next begins on a clean line; the next draw begins a new work. */
void hth_progress_end(hth_progress *progress);

#endif

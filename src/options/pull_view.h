/*
 * pull_view.h - a download as people see it: a bar with speed and time left on a terminal, otherwise a line each tenth
 */
#ifndef HTH_OPTIONS_PULL_VIEW_H
#define HTH_OPTIONS_PULL_VIEW_H

#include "console/progress.h"
#include "hub/download.h"

/* Owned by the caller; one thread. */
typedef struct hth_pull_view {
    hth_progress bar;
    bool is_quiet;
    char path[HTH_HUB_PATH_BYTES]; /* of the file that is shown; "": none yet */
    uint64_t begin_ns;
    uint64_t n_begin; /* bytes that were there at begin_ns */
    unsigned tenths;  /* that were said */
} hth_pull_view;

void hth_pull_view_init(hth_pull_view *view, bool is_quiet);
/* Its functions, for a download; the view must outlive it. */
hth_hub_watch hth_pull_view_watch(hth_pull_view *view);
/* Wipe the bar. */
void hth_pull_view_end(hth_pull_view *view);

#endif

/*
 * pull_view.h - shows a download: a bar with speed and remaining time on a terminal, otherwise a line for each tenth
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
    uint64_t n_begin; /* bytes already present at begin_ns */
    unsigned tenths;  /* tenths reported so far */
} hth_pull_view;

void hth_pull_view_init(hth_pull_view *view, bool is_quiet);
/* Its callbacks for a download, which the view must outlive. */
hth_hub_watch hth_pull_view_watch(hth_pull_view *view);
/* Clear the bar. */
void hth_pull_view_end(hth_pull_view *view);

#endif

/*
 * pull_view.c - see pull_view.h
 */
#include "options/pull_view.h"

#include <stdio.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/os.h"
#include "console/units.h"

void hth_pull_view_init(hth_pull_view *view, bool is_quiet)
{
    *view = (hth_pull_view){ .is_quiet = is_quiet };
    hth_progress_init(&view->bar, !is_quiet);
}

void hth_pull_view_end(hth_pull_view *view)
{
    hth_progress_end(&view->bar);
}

static void begin_file(hth_pull_view *view, const char *path, uint64_t n_done, uint64_t n_total)
{
    char done[32], total[32];

    (void)snprintf(view->path, sizeof(view->path), "%s", path); /* fits any path */
    view->begin_ns = hth_os_monotonic_ns();
    view->n_begin = n_done;
    view->tenths = (unsigned)(n_done * 10 / n_total);
    hth_progress_end(&view->bar);
    if (n_done > 0)
        (void)fprintf(stderr, "hearth: %s: %s of %s are there already\n", hth_gguf_base_name(path),
                      hth_size_text(n_done, done), hth_size_text(n_total, total));
    else
        (void)fprintf(stderr, "hearth: downloading %s, %s\n", hth_gguf_base_name(path), hth_size_text(n_total, total));
}

static void show_progress(const char *path, uint64_t n_done, uint64_t n_total, void *user_data)
{
    hth_pull_view *view = user_data;
    char done[32], total[32], speed[32], left[32] = "", detail[160];
    double seconds, bytes_a_second;
    uint64_t n_new;

    if (view->is_quiet)
        return;
    if (strcmp(view->path, path) != 0)
        begin_file(view, path, n_done, n_total);
    seconds = (double)(hth_os_monotonic_ns() - view->begin_ns) / 1e9;
    n_new = n_done > view->n_begin ? n_done - view->n_begin : 0; /* an interrupted piece is downloaded again */
    bytes_a_second = seconds > 0 ? (double)n_new / seconds : 0;
    if (bytes_a_second >= 1)
        (void)hth_time_text((uint64_t)((double)(n_total - n_done) / bytes_a_second * 1000), left);
    (void)snprintf(detail, sizeof(detail), "%s of %s, %s/s%s%s", hth_size_text(n_done, done),
                   hth_size_text(n_total, total), hth_size_text((uint64_t)bytes_a_second, speed),
                   n_done < n_total && left[0] ? ", time left: " : "", n_done < n_total ? left : "");
    if (view->bar.enabled) {
        hth_progress_draw(&view->bar, hth_gguf_base_name(path), (double)n_done / (double)n_total, detail);
    } else if (n_done * 10 / n_total > view->tenths) {
        view->tenths = (unsigned)(n_done * 10 / n_total);
        (void)fprintf(stderr, "hearth: %s: %u%%, %s\n", hth_gguf_base_name(path), view->tenths * 10, detail);
    }
}

static void show_note(const char *text, void *user_data)
{
    hth_pull_view *view = user_data;

    hth_progress_end(&view->bar);
    if (!view->is_quiet)
        (void)fprintf(stderr, "hearth: %s\n", text);
}

hth_hub_watch hth_pull_view_watch(hth_pull_view *view)
{
    return (hth_hub_watch){ .on_progress = show_progress, .on_note = show_note, .user_data = view };
}

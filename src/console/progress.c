/*
 * progress.c - draws and clears the bar
 */
#include "console/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/os.h"

enum { BAR_WIDTH = 30 };

static const uint64_t interval_ns = UINT64_C(100000000);

void hth_progress_init(hth_progress *progress, bool wanted)
{
    *progress = (hth_progress){ .enabled = wanted && isatty(STDERR_FILENO) };
    pthread_mutex_init(&progress->lock, NULL);
}

static bool is_time_locked(hth_progress *progress)
{
    uint64_t now = hth_os_monotonic_ns();

    if (progress->shown && now - progress->drawn_ns < interval_ns)
        return false;
    progress->shown = true;
    progress->drawn_ns = now;
    return true;
}

static void draw_locked(hth_progress *progress, const char *label, double fraction, const char *detail)
{
    char bar[BAR_WIDTH + 1];
    int filled;

    if (!is_time_locked(progress))
        return;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    filled = (int)(fraction * BAR_WIDTH);
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(stderr, "\r%s [%s] %3d%%  %s\033[K", label, bar, (int)(fraction * 100), detail); /* only a display */
}

void hth_progress_say(hth_progress *progress, const char *text)
{
    if (!progress->enabled)
        return;
    pthread_mutex_lock(&progress->lock);
    if (is_time_locked(progress))
        (void)fprintf(stderr, "\r%s\033[K", text); /* only a display */
    pthread_mutex_unlock(&progress->lock);
}

void hth_progress_draw(hth_progress *progress, const char *label, double fraction, const char *detail)
{
    if (!progress->enabled)
        return;
    pthread_mutex_lock(&progress->lock);
    draw_locked(progress, label, fraction, detail);
    pthread_mutex_unlock(&progress->lock);
}

void hth_progress_end(hth_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->shown)
        (void)fputs("\r\033[K", stderr); /* only a display */
    progress->shown = false;
    pthread_mutex_unlock(&progress->lock);
}

/*
 * folder_watch.h - tells the event loop that something changed in the folders of models
 *
 * A change is told once nothing was written to the folders for two seconds. So a file that is being copied is told when
 * it is whole, unless the copying makes a longer pause; then it is told again. Event loop only.
 */
#ifndef HTH_SUPERVISOR_FOLDER_WATCH_H
#define HTH_SUPERVISOR_FOLDER_WATCH_H

#include <event2/event.h>
#include <stddef.h>

#include "base/log.h"

typedef struct hth_folder_watch hth_folder_watch;

/* NULL without memory. log is kept. */
hth_folder_watch *hth_folder_watch_new(struct event_base *base, const hth_log *log, void (*on_change)(void *user_data),
                                       void *user_data);
void hth_folder_watch_free(hth_folder_watch *watch); /* accepts NULL */

/*
 * Watch these folders, [n], instead of those before. A change of the earlier ones that was not told yet is told. If the
 * system cannot watch them, a warning in the log says so.
 */
void hth_folder_watch_set(hth_folder_watch *watch, const char *const *folders, size_t n);

#endif

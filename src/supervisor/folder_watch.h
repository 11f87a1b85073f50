/*
 * folder_watch.h - notifies the event loop of changes in the folders of models
 *
 * A change is reported when nothing has been written to the folders for two seconds. So a file that is being copied is
 * reported when it is complete. If the copying pauses for longer, it is reported again. Event loop only.
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
 * Watch these folders, [n], instead of the earlier ones. A change in the earlier ones that was not reported yet is
 * still reported. If the system cannot watch the folders, the log has a warning.
 */
void hth_folder_watch_set(hth_folder_watch *watch, const char *const *folders, size_t n);

#endif

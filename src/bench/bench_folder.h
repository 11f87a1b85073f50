/*
 * bench_folder.h - the temporary folders of `hearth bench`
 */
#ifndef HTH_BENCH_BENCH_FOLDER_H
#define HTH_BENCH_BENCH_FOLDER_H

#include <limits.h>
#include <stdbool.h>

#include "hearth.h"

/* Make "PARENT/hearth-bench-XXXXXX", mode 0700, and the parent itself where only it is missing. */
hearth_status hth_bench_folder_make(const char *parent, char path_out[PATH_MAX], hearth_error *err);
/* Remove it with all that is in it; "" is none. False: something stays. */
bool hth_bench_folder_remove(const char *path);

#endif

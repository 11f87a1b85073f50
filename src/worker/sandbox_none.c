/*
 * sandbox_none.c - for systems on which Hearth cannot drop rights
 */
#include "worker/sandbox.h"

bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log)
{
    (void)paths;
    hth_info(log, "the worker's access to files is that of its user: this system has no sandbox that is known here");
    return false;
}

bool hth_sandbox_calls(bool moves_threads, const hth_log *log)
{
    (void)moves_threads;
    (void)log; /* logged above */
    return false;
}

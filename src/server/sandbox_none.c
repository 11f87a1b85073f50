/*
 * sandbox_none.c - where the system has no way for a process to give up rights, or none that is used here
 */
#include "server/sandbox.h"

bool hth_sandbox_files(const hth_sandbox_paths *paths, const hth_log *log)
{
    (void)paths;
    hth_info(log, "the worker's access to files is that of its user: this system has no sandbox that is known here");
    return false;
}

bool hth_sandbox_calls(const hth_log *log)
{
    (void)log; /* said above */
    return false;
}

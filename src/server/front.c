/*
 * front.c - a place holder: what the front is given is read and checked, but nobody serves yet
 */
#include "server/front.h"

#include "base/status.h"

hearth_status hth_front_run(const hth_server_options *options, const hth_front_hooks *hooks, hearth_error *err)
{
    (void)options;
    (void)hooks;
    return hth_fail(err, HEARTH_UNSUPPORTED, "this build cannot serve yet; --check and --print-config work");
}

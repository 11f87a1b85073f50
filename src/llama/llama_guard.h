/*
 * llama_guard.h - turns the engine's exceptions into statuses; only for the C++ files of this folder
 */
#ifndef HTH_LLAMA_LLAMA_GUARD_H
#define HTH_LLAMA_LLAMA_GUARD_H

#include <exception>
#include <new>

extern "C" {
#include "base/status.h"
}

/* Run call. An exception becomes a status. */
template <typename Call> hearth_status hth_guarded(hearth_error *err, const char *what, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return hth_fail(err, HEARTH_NO_MEMORY, "not enough memory to %s", what);
    } catch (const std::exception &e) {
        return hth_fail(err, HEARTH_ENGINE, "the engine could not %s: %s", what, e.what());
    } catch (...) {
        return hth_fail(err, HEARTH_ENGINE, "the engine could not %s", what);
    }
}

#endif

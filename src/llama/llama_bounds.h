/*
 * llama_bounds.h - run code of the engine within bounds of memory, stack and time
 *
 * A chat template is a program, and comes with a model from anywhere. The engine interprets it without any bound, and
 * offers no place to stop it. But nearly all that takes the interpreter long allocates: each value, each call and each
 * longer text. So `operator new` of the engine's module keeps the bounds (llama_bounds.cpp):
 *
 * - memory: bytes that the call holds at one time;
 * - stack: the call runs on a thread with a stack of its own, whose size is known. A template that recurses is stopped
 *   far above its end. The rest is for the destructors of nested values: values that fit the bound of memory fit it;
 * - time: processor time of that thread. A search in a long text, or the comparison of values that share parts, can
 *   take long without an allocation. Then the supervisor kills the worker, as one that hangs.
 *
 * Without these functions there are no bounds: under sanitizers, which have their own, on macOS, and with an engine of
 * shared libraries (HTH_TEMPLATE_BOUNDS in CMakeLists.txt).
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_BOUNDS_H
#define HTH_LLAMA_LLAMA_BOUNDS_H

#include <cstddef>
#include <functional>
#include <stdexcept>

/* A call met a bound; the message says which. */
struct unbounded : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct hth_bounds {
    size_t bytes_max;
    unsigned seconds_max;
};

/*
 * Run call on another thread, and wait for it. An exception of call is thrown here. Once a bound is met, allocations of
 * call fail, also where the engine goes on after an exception, until it ends; the exception thrown here is then
 * unbounded.
 */
void hth_run_bounded(const hth_bounds &bounds, const std::function<void()> &call);

/* Has the running call of this thread met a bound? What it found out since then is not to be remembered. */
bool hth_bounds_are_met();

#endif

/*
 * llama_bounds.h - runs engine code within bounds of memory, stack and time
 *
 * A chat template is a program that comes with a model from an unknown source. The engine interprets it without any
 * limit, and offers no way to stop it. But nearly everything that takes the interpreter long also allocates: each
 * value, each call and each longer text. So the `operator new` of the engine's module enforces the bounds
 * (llama_bounds.cpp):
 *
 * - memory: bytes that the call holds at one time;
 * - stack: the call runs on a thread with its own stack of known size. A template that recurses is stopped well before
 *   the end of the stack. The rest is for the destructors of nested values: it suffices for all values within the
 *   memory bound;
 * - time: CPU time of that thread. A search in a long text, or the comparison of values that share parts, can take long
 *   without an allocation. Then the supervisor kills the worker as hung.
 *
 * Some builds lack these functions and have no bounds: under sanitizers, which have their own, on macOS, and with an
 * engine of shared libraries (HTH_TEMPLATE_BOUNDS in CMakeLists.txt).
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_BOUNDS_H
#define HTH_LLAMA_LLAMA_BOUNDS_H

#include <cstddef>
#include <functional>
#include <stdexcept>

/* A call exceeded a bound; the message says which. */
struct unbounded : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct hth_bounds {
    size_t bytes_max;
    unsigned seconds_max;
};

/*
 * Run call on another thread, and wait for it. An exception from call is rethrown here. Once a bound is exceeded,
 * allocations in call fail until it ends, even if the engine continues after an exception; the exception thrown here is
 * then unbounded.
 */
void hth_run_bounded(const hth_bounds &bounds, const std::function<void()> &call);

/* Has the running call of this thread exceeded a bound? Results obtained since then must not be remembered. */
bool hth_bounds_are_met();

#endif

/*
 * The module replaces `operator new` and `operator delete` for itself. It links its own C++ library, because that also
 * allocates strings. Outside hth_run_bounded, the functions are malloc and free, plus a check of a thread-local
 * variable. A call may free more than it allocated, because it may free values that it did not allocate; it may then
 * hold more.
 */
#include "llama/llama_bounds.h"

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include <pthread.h>
#include <sys/mman.h>

#include "engine/module_lock.h"

extern "C" {
#include "base/os.h"
}

#ifndef HTH_TEMPLATE_BOUNDS

void hth_run_bounded(const hth_bounds &, const std::function<void()> &call)
{
    call();
}

bool hth_bounds_are_met()
{
    return false;
}

#else

namespace
{

constexpr size_t stack_for_calls = (size_t)16 << 20;
constexpr unsigned allocations_a_look = 1024; /* allocations between two checks of the clock */
constexpr unsigned spare_allocations = 100000;
constexpr size_t spare_bytes = (size_t)64 << 20;

enum class bound { none, memory, stack, time };

/* What a thread may use; each call of hth_run_bounded has one. */
struct allowance {
    size_t bytes_max;
    int64_t bytes = 0;
    const char *stack_end = nullptr; /* limit for calls */
    int64_t end_ns = 0;
    unsigned n_allocations = 0;
    bound met = bound::none;
    unsigned n_spare = 0; /* allocations and bytes until the next exception */
    size_t n_spare_bytes = 0;
};

/* This thread's allowance; nullptr: no bounds. */
#ifdef __GLIBC__
__attribute__((tls_model("initial-exec")))
#endif
thread_local allowance *allowed = nullptr;

int64_t thread_ns()
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bound bound_met(allowance &a, size_t n_bytes)
{
    const char here = 0;

    if (n_bytes > a.bytes_max || a.bytes + (int64_t)n_bytes > (int64_t)a.bytes_max)
        return bound::memory;
    if (&here < a.stack_end)
        return bound::stack;
    return ++a.n_allocations % allocations_a_look == 0 && thread_ns() > a.end_ns ? bound::time : bound::none;
}

/*
 * The engine continues after some exceptions, because it tries a template in several ways. So each exception grants a
 * small extra allowance for what follows it, because a destructor may also allocate and must not throw. (If the first
 * exception comes from a destructor that does not run during unwinding, the process ends. The interpreter's own values
 * have no such destructors.)
 */
bool may_allocate(allowance &a, size_t n_bytes)
{
    if (a.met == bound::none)
        a.met = bound_met(a, n_bytes);
    if (a.met == bound::none || std::uncaught_exceptions() > 0)
        return true;
    if (a.n_spare > 0 && n_bytes <= a.n_spare_bytes) {
        a.n_spare--;
        a.n_spare_bytes -= n_bytes;
        return true;
    }
    a.n_spare = spare_allocations;
    a.n_spare_bytes = spare_bytes;
    return false;
}

void *allocated(size_t n_bytes) noexcept
{
    allowance *a = allowed;

    if (a && !may_allocate(*a, n_bytes))
        return nullptr;
    void *bytes = std::malloc(n_bytes ? n_bytes : 1);
    if (a && bytes)
        a->bytes += (int64_t)hth_os_allocated_bytes(bytes);
    return bytes;
}

void *allocated_or_thrown(size_t n_bytes)
{
    void *bytes = allocated(n_bytes);

    if (!bytes)
        throw std::bad_alloc();
    return bytes;
}

void freed(void *bytes) noexcept
{
    if (allowed && bytes)
        allowed->bytes -= (int64_t)hth_os_allocated_bytes(bytes);
    std::free(bytes);
}

} /* namespace */

void *operator new(size_t n_bytes)
{
    return allocated_or_thrown(n_bytes);
}

void *operator new[](size_t n_bytes)
{
    return allocated_or_thrown(n_bytes);
}

void *operator new(size_t n_bytes, const std::nothrow_t &) noexcept
{
    return allocated(n_bytes);
}

void *operator new[](size_t n_bytes, const std::nothrow_t &) noexcept
{
    return allocated(n_bytes);
}

void operator delete(void *bytes) noexcept
{
    freed(bytes);
}

void operator delete[](void *bytes) noexcept
{
    freed(bytes);
}

void operator delete(void *bytes, size_t) noexcept
{
    freed(bytes);
}

void operator delete[](void *bytes, size_t) noexcept
{
    freed(bytes);
}

void operator delete(void *bytes, const std::nothrow_t &) noexcept
{
    freed(bytes);
}

void operator delete[](void *bytes, const std::nothrow_t &) noexcept
{
    freed(bytes);
}

namespace
{

struct bounded_call {
    const std::function<void()> &call;
    unsigned seconds_max;
    allowance allows;
    std::exception_ptr thrown;
};

void *run(void *context)
{
    bounded_call &bounded = *static_cast<bounded_call *>(context);

    bounded.allows.end_ns = thread_ns() + (int64_t)bounded.seconds_max * 1000000000;
    allowed = &bounded.allows;
    try {
        bounded.call();
    } catch (...) {
        bounded.thrown = std::current_exception();
    }
    allowed = nullptr;
    return nullptr;
}

/* A stack with a guard page at its end. Memory is used only where it is touched. */
class own_stack
{
  public:
    explicit own_stack(size_t n_bytes) : n_bytes_(n_bytes)
    {
        bytes_ = mmap(nullptr, n_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bytes_ == MAP_FAILED)
            throw std::bad_alloc();
        (void)mprotect(bytes_, guard_bytes, PROT_NONE); /* without it, only a bug of ours would go unnoticed */
    }
    ~own_stack()
    {
        (void)munmap(bytes_, n_bytes_);
    }
    own_stack(const own_stack &) = delete;

    void *bytes() const
    {
        return bytes_;
    }
    size_t n_bytes() const
    {
        return n_bytes_;
    }

  private:
    static constexpr size_t guard_bytes = (size_t)64 << 10;
    size_t n_bytes_;
    void *bytes_;
};

/* The latest stack is kept, because its first pages are then already in memory. */
pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
std::unique_ptr<own_stack> spare;

std::unique_ptr<own_stack> take_stack(size_t n_bytes)
{
    {
        hth_module_guard guard(&spare_lock);

        if (spare && spare->n_bytes() >= n_bytes)
            return std::move(spare);
    }
    return std::make_unique<own_stack>(n_bytes);
}

void give_back(std::unique_ptr<own_stack> stack)
{
    hth_module_guard guard(&spare_lock);

    if (!spare || spare->n_bytes() < stack->n_bytes())
        spare.swap(stack);
}

int run_on(const own_stack &stack, bounded_call &bounded)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int failed = pthread_attr_init(&attributes);

    if (failed)
        return failed;
    failed = pthread_attr_setstack(&attributes, stack.bytes(), stack.n_bytes());
    if (!failed)
        failed = pthread_create(&thread, &attributes, run, &bounded);
    if (!failed)
        failed = pthread_join(thread, nullptr);
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

std::string message_of(const hth_bounds &bounds, bound met)
{
    switch (met) {
    case bound::memory: return "it needs more than " + std::to_string(bounds.bytes_max >> 20) + " MiB of memory";
    case bound::stack: return "it calls itself without end, or nests values too deeply";
    case bound::time: return "it runs for more than " + std::to_string(bounds.seconds_max) + " s";
    default: return "";
    }
}

} /* namespace */

void hth_run_bounded(const hth_bounds &bounds, const std::function<void()> &call)
{
    /*
     * A level of nested values takes at least three times as many bytes of memory as its destructor takes of the stack.
     */
    const size_t stack_bytes = stack_for_calls + ((bounds.bytes_max / 2 + 0xffff) & ~(size_t)0xffff);
    std::unique_ptr<own_stack> stack = take_stack(stack_bytes);
    bounded_call bounded = { call, bounds.seconds_max, { bounds.bytes_max }, nullptr };

    bounded.allows.stack_end = static_cast<const char *>(stack->bytes()) + (stack->n_bytes() - stack_for_calls);
    if (run_on(*stack, bounded) != 0)
        throw std::bad_alloc();
    if (bounded.allows.met != bound::none)
        throw unbounded(message_of(bounds, bounded.allows.met));
    give_back(std::move(stack));
    if (bounded.thrown)
        std::rethrow_exception(bounded.thrown);
}

bool hth_bounds_are_met()
{
    return allowed && allowed->met != bound::none;
}

#endif

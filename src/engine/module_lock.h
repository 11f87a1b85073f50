/*
 * module_lock.h - locks in our part of the engine module, made visible to ThreadSanitizer
 *
 * The engine is not instrumented, so ThreadSanitizer ignores all calls from its module (tests/tsan.supp), including our
 * own locks there. Without these annotations, all data that such a lock guards would look like a race.
 */
#ifndef HTH_ENGINE_MODULE_LOCK_H
#define HTH_ENGINE_MODULE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#ifdef __SANITIZE_THREAD__ /* GCC */
#define HTH_THREAD_SANITIZER 1
#elif defined(__has_feature) /* clang */
#define HTH_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define HTH_THREAD_SANITIZER 0
#endif
#if HTH_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

/* A default mutex that its holder does not lock again, so neither call can fail. */
static inline void hth_module_lock(pthread_mutex_t *lock)
{
    (void)pthread_mutex_lock(lock);
#if HTH_THREAD_SANITIZER
    __tsan_acquire(lock);
#endif
}

static inline void hth_module_unlock(pthread_mutex_t *lock)
{
#if HTH_THREAD_SANITIZER
    __tsan_release(lock);
#endif
    (void)pthread_mutex_unlock(lock);
}

/*
 * The same for a reader-writer lock. For ThreadSanitizer, readers also exclude each other, so it finds no race between
 * two readers.
 */
static inline void hth_module_acquired(pthread_rwlock_t *lock)
{
    (void)lock; /* used below only */
#if HTH_THREAD_SANITIZER
    __tsan_acquire(lock);
#endif
}

static inline void hth_module_read_lock(pthread_rwlock_t *lock)
{
    (void)pthread_rwlock_rdlock(lock);
    hth_module_acquired(lock);
}

static inline void hth_module_write_lock(pthread_rwlock_t *lock)
{
    (void)pthread_rwlock_wrlock(lock);
    hth_module_acquired(lock);
}

/* False: another thread has it. */
static inline bool hth_module_try_write_lock(pthread_rwlock_t *lock)
{
    if (pthread_rwlock_trywrlock(lock) != 0)
        return false;
    hth_module_acquired(lock);
    return true;
}

static inline void hth_module_release(pthread_rwlock_t *lock)
{
#if HTH_THREAD_SANITIZER
    __tsan_release(lock);
#endif
    (void)pthread_rwlock_unlock(lock);
}

#ifdef __cplusplus
/* Holds a lock for as long as the object lives. */
class hth_module_guard
{
  public:
    explicit hth_module_guard(pthread_mutex_t *held) : lock(held)
    {
        hth_module_lock(lock);
    }
    ~hth_module_guard()
    {
        hth_module_unlock(lock);
    }
    hth_module_guard(const hth_module_guard &) = delete;
    hth_module_guard &operator=(const hth_module_guard &) = delete;

  private:
    pthread_mutex_t *lock;
};
#endif

#endif

/*
 * sized_models.h - models of a supervisor's stage with files of a size
 *
 * The files are sparse, so that they take no room.
 */
#ifndef HTH_TESTS_SIZED_MODELS_H
#define HTH_TESTS_SIZED_MODELS_H

#include <fcntl.h>

#include "support/supervisor_stage.h"

enum {
    MIB = 1 << 20,
    PROCESS_MIB = 32, /* that a model counts besides its file, where its worker tells no needs */
};

static char paths[4][600];

/* Another model with a file of so many MiB. */
static inline hth_server_model *add_sized(fixture *f, const char *name, uint64_t n_mib)
{
    char *path = paths[f->options.n_models];
    hth_server_model *model = add(f, name, WORDS("ready"));
    int fd;

    (void)snprintf(path, sizeof(paths[0]), "%s/%s.gguf", f->directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(n_mib * MIB)), 0);
    assert_int_equal(close(fd), 0);
    model->path = path;
    model->rules.start = HTH_START_ON_DEMAND;
    return model;
}

static inline void begin(fixture *f, uint64_t n_mib)
{
    f->options.memory_bytes = n_mib * MIB;
    f->options.turn_ms = 600000;
    f->options.stay_ms = 0;
    start(f);
}

/* A request that came now. */
static inline asker request_of(fixture *f)
{
    asker a = asker_of(f);

    a.waiter.since_ns = hth_os_monotonic_ns();
    return a;
}

static inline void end(asker *a)
{
    hth_worker_waiter_cancel(&a->waiter);
}

/* Use a model for a moment. */
static inline void use(fixture *f, const char *model)
{
    asker a = request_of(f);

    want(f, model, 0, &a);
    run_until(f, a.n_ready == 1);
    end(&a);
}

/* The words of a model's worker: first those for the process that tells its needs. */
static inline void set_words(fixture *f, size_t i, const char *const *words)
{
    size_t n = 0;

    for (; *words; words++) {
        f->words[i][n++] = "--do";
        f->words[i][n++] = *words;
    }
    f->words[i][n] = NULL;
}

#endif

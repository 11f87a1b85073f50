/*
 * module.c - find and load the engine module
 *
 * llama.cpp is megabytes of C++ with its own threads and static state, so it is loaded only where a model is. Once
 * loaded it stays until the process ends: its libraries cannot be unloaded safely.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"

#define MODULE_FILE "hearth-llama.so"
#define PATH_BYTES 4096

/* Where `make install` puts the module, as seen from the folder of programs; the build sets it. */
#ifndef HTH_ENGINE_FROM_PROGRAMS
#define HTH_ENGINE_FROM_PROGRAMS "../lib/hearth"
#endif

/* The one engine of this process. A dynamic library is process-wide state by nature, so its handle is, too. */
static struct {
    pthread_mutex_t lock; /* held while loading, so that one thread does it */
    const hth_backend *backend;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The places looked at, for the message. */
typedef struct search {
    char places[384];
    char path[PATH_BYTES]; /* of the module, where one was found */
} search;

static bool look_in(search *at, const char *directory)
{
    size_t n = strlen(at->places);

    if ((size_t)snprintf(at->path, sizeof(at->path), "%s/%s", directory, MODULE_FILE) >= sizeof(at->path))
        return false;
    if (access(at->path, F_OK) == 0)
        return true;
    /* Cut when too long. */
    (void)snprintf(at->places + n, sizeof(at->places) - n, "%s%s", n > 0 ? ", " : "", directory);
    return false;
}

/* The folder of the file that contains this code: the shared library, or the program. */
static bool own_folder(char *folder, size_t capacity)
{
    static const char marker;
    Dl_info info;
    char *path;
    char *slash;
    bool ok = false;

    if (!dladdr(&marker, &info) || !info.dli_fname)
        return false;
    /* A program's own name may be relative or bare; the kernel knows better where it can be asked. */
    path = strchr(info.dli_fname, '/') ? realpath(info.dli_fname, NULL) : realpath("/proc/self/exe", NULL);
    if (!path)
        return false;
    slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
        ok = (size_t)snprintf(folder, capacity, "%s", path) < capacity;
    }
    free(path);
    return ok;
}

static bool look_beside(search *at)
{
    static const char *const places[] = { "/hearth", "", "/" HTH_ENGINE_FROM_PROGRAMS };
    char folder[PATH_BYTES - 64];
    char place[PATH_BYTES];

    if (!own_folder(folder, sizeof(folder)))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(place, sizeof(place), "%s%s", folder, places[i]); /* fits */
        if (look_in(at, place))
            return true;
    }
    return false;
}

/* A directory that somebody named is the only place looked at: a module from elsewhere would be a surprise. */
static hearth_status find_module(const char *directory, search *at, hearth_error *err)
{
    const char *named = directory ? directory : getenv("HEARTH_ENGINE_DIRECTORY");

    if (named && *named ? look_in(at, named) : look_beside(at))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_NOT_FOUND,
                    "no engine: '%s' is not in %s; install it there or set HEARTH_ENGINE_DIRECTORY to its folder",
                    MODULE_FILE, at->places);
}

static hearth_status load_module(const char *path, const hth_backend **out, hearth_error *err)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const hth_backend *backend;
    hth_backend_entry entry;
    void *symbol;

    if (!module) {
        const char *reason = dlerror();

        return hth_fail(err, HEARTH_ENGINE, "cannot load the engine '%s': %s", path, reason ? reason : "unknown error");
    }
    symbol = dlsym(module, HTH_BACKEND_SYMBOL);
    if (!symbol) {
        (void)dlclose(module); /* nothing of it ran */
        return hth_fail(err, HEARTH_ENGINE, "'%s' is no engine of Hearth: it has no symbol '%s'", path,
                        HTH_BACKEND_SYMBOL);
    }
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointers */
    backend = entry();
    if (!backend || backend->abi != HTH_BACKEND_ABI)
        return hth_fail(err, HEARTH_ENGINE, "the engine '%s' has interface %u, this library needs %u; reinstall both",
                        path, backend ? backend->abi : 0, HTH_BACKEND_ABI);
    *out = backend;
    return HEARTH_OK;
}

hearth_status hth_backend_llama(const char *directory, const hth_backend **out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    search at = { .places = "" };

    pthread_mutex_lock(&loaded.lock);
    if (!loaded.backend) {
        status = find_module(directory, &at, err);
        if (status == HEARTH_OK)
            status = load_module(at.path, &loaded.backend, err);
    }
    if (status == HEARTH_OK)
        *out = loaded.backend;
    pthread_mutex_unlock(&loaded.lock);
    return status;
}

/*
 * module.c - find and load engine modules
 *
 * llama.cpp is megabytes of C++ with its own threads and static state, so it is loaded only with a model. A loaded
 * module stays until the process ends, because its libraries cannot be unloaded safely. So a process has only one
 * module of each name. A runtime whose engine directory has a different file of that name gets an error.
 *
 * Only files "hearth-NAME.so" of the engine directory are loaded, and NAME consists of letters, so no path of a model
 * leads anywhere else.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/backend.h"

#define LLAMA "llama"
#define NAME_BYTES 17 /* of a module's name, with the terminating NUL */
#define N_MODULES_MAX 4
#define PATH_BYTES 4096

/* Where `make install` puts the module, relative to the folder of programs; set by the build. */
#ifndef HTH_ENGINE_FROM_PROGRAMS
#define HTH_ENGINE_FROM_PROGRAMS "../lib/hearth"
#endif

typedef struct module {
    const hth_backend *backend; /* NULL: not loaded, and nothing else is set */
    char name[NAME_BYTES];
    char *path;                       /* of its file, without links; never freed */
    uint8_t digest[HTH_SHA256_BYTES]; /* of its file; LLAMA's is not computed: its models are files */
    bool is_unknown;                  /* the digest may not be that of the loaded code */
} module;

/* The engines of this process. A dynamic library is inherently process-wide state, so its handle is, too. */
static struct {
    pthread_mutex_t lock; /* held while loading, so that only one thread loads */
    module modules[N_MODULES_MAX];
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The places searched, for the message. */
typedef struct search {
    const char *name; /* of the module */
    char places[384];
    char path[PATH_BYTES]; /* of the module, if one was found */
} search;

static bool look_in(search *at, const char *directory)
{
    size_t n = strlen(at->places);

    if ((size_t)snprintf(at->path, sizeof(at->path), "%s/hearth-%s.so", directory, at->name) >= sizeof(at->path))
        return false;
    if (access(at->path, F_OK) == 0)
        return true;
    /* Truncated if too long. */
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
    /* A program's own name may be relative or bare; the kernel knows better, where it can be asked. */
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

/* If the caller named a directory, look only there: a module from elsewhere would be a surprise. */
static bool find_module(const char *directory, search *at)
{
    const char *named = directory ? directory : getenv("HEARTH_ENGINE_DIRECTORY");

    return named && *named ? look_in(at, named) : look_beside(at);
}

static bool digest_file(const char *path, uint8_t out[HTH_SHA256_BYTES])
{
    char piece[1 << 16];
    FILE *file = fopen(path, "rb");
    hth_sha256 *sha = hth_sha256_new();
    bool ok = file && sha;

    for (size_t n; ok && (n = fread(piece, 1, sizeof(piece), file)) > 0;)
        hth_sha256_update(sha, piece, n);
    ok = ok && !ferror(file);
    if (ok)
        hth_sha256_peek(sha, out);
    hth_sha256_free(sha);
    if (file)
        (void)fclose(file); /* it was only read */
    return ok;
}

static hearth_status open_module(const char *path, const hth_backend **out, hearth_error *err)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const hth_backend *backend;
    hth_backend_entry entry;
    void *symbol;

    if (!handle) {
        const char *reason = dlerror();

        return hth_fail(err, HEARTH_ENGINE, "cannot load the engine '%s': %s", path, reason ? reason : "unknown error");
    }
    symbol = dlsym(handle, HTH_BACKEND_SYMBOL);
    if (!symbol) {
        (void)dlclose(handle); /* none of its code ran */
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

static hearth_status refuse_unknown(const module *m, hearth_error *err)
{
    return hth_fail(err, HEARTH_IO,
                    "the file of the engine '%s' changed, or could not be read, while it was loaded; start another "
                    "process for it",
                    m->path);
}

/*
 * Read the file before and after loading, so that the digest is that of the loaded code. A module that changed in
 * between stays mapped, so a second try would find the old code under the new digest. Its entry is kept so that it is
 * refused.
 */
static hearth_status load_module(const char *path, const char *name, module *to, hearth_error *err)
{
    uint8_t before[HTH_SHA256_BYTES] = { 0 };
    module made = { .path = realpath(path, NULL) };
    bool has_digest = strcmp(name, LLAMA) != 0;
    hearth_status status = HEARTH_OK;

    memcpy(made.name, name, strlen(name) + 1);
    if (!made.path || (has_digest && !digest_file(path, before)))
        status = hth_fail_errno(err, errno, "cannot read the engine '%s'", path);
    if (status == HEARTH_OK)
        status = open_module(path, &made.backend, err);
    if (status != HEARTH_OK) {
        free(made.path);
        return status;
    }
    made.is_unknown =
        has_digest && (!digest_file(path, made.digest) || memcmp(before, made.digest, sizeof(before)) != 0);
    *to = made;
    return made.is_unknown ? refuse_unknown(to, err) : HEARTH_OK;
}

/* The module of that name, or a free entry for it; NULL if there is neither. */
static module *module_named_locked(const char *name)
{
    for (size_t i = 0; i < N_MODULES_MAX; i++)
        if (!loaded.modules[i].backend || strcmp(loaded.modules[i].name, name) == 0)
            return &loaded.modules[i];
    return NULL;
}

/* A loaded module serves only the file that it came from. found is NULL if there is no longer a file. */
static hearth_status use_loaded(const module *has, const char *found, const hth_backend **out, hearth_error *err)
{
    char *path = found ? realpath(found, NULL) : NULL;
    bool is_other = path && strcmp(path, has->path) != 0;

    free(path);
    if (is_other)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "cannot load the engine '%s': this process has loaded '%s' under the same name; start another "
                        "process for it",
                        found, has->path);
    if (has->is_unknown)
        return refuse_unknown(has, err);
    *out = has->backend;
    return HEARTH_OK;
}

static hearth_status load_once_locked(const char *directory, const char *name, const hth_backend **out,
                                      hearth_error *err)
{
    module *to = module_named_locked(name);
    search at = { .name = name };
    bool is_found;
    hearth_status status;

    is_found = find_module(directory, &at);
    if (to && to->backend && (is_found || !directory))
        return use_loaded(to, is_found ? at.path : NULL, out, err);
    if (!to)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "cannot load the engine 'hearth-%s': a process can load %d engines, and has loaded as many; start "
            "another process for it",
            name, N_MODULES_MAX);
    if (!is_found)
        return hth_fail(
            err, HEARTH_NOT_FOUND,
            "no engine: 'hearth-%s.so' is not in %s; install it there or set HEARTH_ENGINE_DIRECTORY to its "
            "folder",
            name, at.places);
    status = load_module(at.path, name, to, err);
    if (status == HEARTH_OK)
        *out = to->backend;
    return status;
}

static hearth_status load_once(const char *directory, const char *name, const hth_backend **out, hearth_error *err)
{
    hearth_status status;

    pthread_mutex_lock(&loaded.lock);
    status = load_once_locked(directory, name, out, err);
    pthread_mutex_unlock(&loaded.lock);
    return status;
}

hearth_status hth_backend_llama(const char *directory, const hth_backend **out, hearth_error *err)
{
    return load_once(directory, LLAMA, out, err);
}

/* Does the path begin with the name of an existing module? LLAMA loads files and is never named in a path. */
static bool names_module(const char *directory, const char *model_path, char name[NAME_BYTES])
{
    size_t n = strspn(model_path, "abcdefghijklmnopqrstuvwxyz");
    search at = { .name = name };

    if (n == 0 || n >= NAME_BYTES || model_path[n] != ':')
        return false;
    memcpy(name, model_path, n);
    name[n] = '\0';
    return strcmp(name, LLAMA) != 0 && find_module(directory, &at);
}

bool hth_model_path_is_file(const char *directory, const char *model_path)
{
    char name[NAME_BYTES];

    return !names_module(directory, model_path, name);
}

hearth_status hth_backend_of_model(const char *directory, const char *model_path, const hth_backend **out,
                                   hearth_error *err)
{
    char name[NAME_BYTES];

    return load_once(directory, names_module(directory, model_path, name) ? name : LLAMA, out, err);
}

void hth_module_fingerprint(const char *model_path, uint8_t out[32])
{
    struct {
        char label[17];
        uint8_t module[HTH_SHA256_BYTES], path[HTH_SHA256_BYTES];
    } parts = { .label = "hearth-module-v1" };

    pthread_mutex_lock(&loaded.lock);
    for (size_t i = 0; i < N_MODULES_MAX && loaded.modules[i].backend; i++) {
        size_t n = strlen(loaded.modules[i].name);

        if (strncmp(model_path, loaded.modules[i].name, n) == 0 && model_path[n] == ':')
            memcpy(parts.module, loaded.modules[i].digest, sizeof(parts.module));
    }
    pthread_mutex_unlock(&loaded.lock);
    hth_sha256_of(model_path, strlen(model_path), parts.path);
    hth_sha256_of(&parts, sizeof(parts), out);
}

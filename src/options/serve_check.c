/*
 * serve_check.c - checks the files and folders that a configuration names
 *
 * A missing file that the server needs is an error. A cache that cannot be written is an error only for --check,
 * because the server runs without it, only more slowly.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gguf_text.h"
#include "base/os.h"
#include "base/status.h"
#include "engine/backend.h"
#include "fleet/fleet_pem.h"
#include "store/store.h"
#include "http/tls.h"
#include "models/chat_templates.h"
#include "options/serve_config.h"
#include "rows/directory.h"
#include "rows/signing_key.h"
#include "supervisor/pressure_library.h"

static void check_model_file(const hth_serve_model *model, hth_problems *problems)
{
    const char *path = model->setup.path;
    int fd;

    if (!path || !hth_model_path_is_file(NULL, path)) /* its absence was told */
        return;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        hth_problems_add(problems, "model '%s': cannot open '%s': %s", model->name, path, strerror(errno));
        return;
    }
    if (!hth_gguf_is_file(fd))
        hth_problems_add(problems, "model '%s': '%s' is no GGUF file", model->name, path);
    (void)close(fd); /* only read */
}

static void check_readable(const char *what, const char *path, hth_problems *problems)
{
    if (path && access(path, R_OK) != 0)
        hth_problems_add(problems, "%s '%s' cannot be read: %s", what, path, strerror(errno));
}

/* The function is looked up later, in a separate process, because loading a library runs its code. */
static void check_pressure_library(const char *text, hth_problems *problems)
{
    char file[PATH_MAX];
    const char *symbol;

    if (text && hth_pressure_library_split(text, file, &symbol)) /* its form was checked */
        check_readable("the library of pressure.library (--pressure-library)", file, problems);
}

/* Check the directory, or the existing one that it would be made in. */
static void check_writable(const char *what, const char *path, hth_problems *problems)
{
    char place[PATH_MAX];
    struct stat st;

    if (!path || strlen(path) >= sizeof(place))
        return;
    memcpy(place, path, strlen(path) + 1);
    while (stat(place, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(place, '/');

        if (!slash)
            return;
        if (slash == place)
            slash++;
        *slash = '\0';
    }
    if (stat(place, &st) != 0)
        hth_problems_add(problems, "%s '%s' cannot be used: %s", what, path, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        hth_problems_add(problems, "%s '%s' cannot be used: '%s' is no directory", what, path, place);
    else if (access(place, W_OK | X_OK) != 0)
        hth_problems_add(problems, "%s '%s' cannot be written: '%s': %s", what, path, place, strerror(errno));
}

/* Check a folder that must exist: a misspelt name must not become a folder for clients' files. */
static void check_folder(const char *what, const char *path, hth_problems *problems)
{
    struct stat st;

    if (path && stat(path, &st) != 0)
        hth_problems_add(problems, "%s '%s' cannot be used: %s", what, path, strerror(errno));
    else
        check_writable(what, path, problems);
}

static bool is_same_cache(const hth_model_setup *a, const hth_model_setup *b)
{
    const char *x = a->runtime.cache_directory, *y = b->runtime.cache_directory;

    return a->runtime.cache_disabled == b->runtime.cache_disabled && (x == y || (x && y && strcmp(x, y) == 0));
}

/* Check the cache of model i, unless an earlier model has the same. */
static void check_cache(const hth_serve_set *set, size_t i, hth_problems *problems)
{
    const hth_model_setup *setup = &set->models[i].setup;
    char directory[PATH_MAX];

    for (size_t j = 0; j < i; j++)
        if (is_same_cache(setup, &set->models[j].setup))
            return;
    if (setup->runtime.cache_disabled)
        return;
    if (setup->runtime.cache_directory)
        check_writable("the cache's directory", setup->runtime.cache_directory, problems);
    else if (hth_cache_default_directory(directory, sizeof(directory)))
        check_writable("the cache's directory", directory, problems);
    else
        hth_problems_add(problems, "no directory for the cache is known, since HOME is not set; give one with "
                                   "cache.directory (--cache), or say cache.disabled = true (--no-cache)");
    for (size_t j = 0; j < setup->runtime.n_more_directories; j++)
        check_writable("a further directory of the cache", setup->more_directories[j], problems);
    check_writable("the directory for rows in memory", setup->runtime.ram_file_directory, problems);
    check_writable("the index's directory", setup->runtime.index_directory, problems);
}

static void check_signing_key(const hth_model_setup *setup, hth_problems *problems)
{
    hth_signing_key *key = NULL;
    hearth_error err;

    if (setup->runtime.signing_key_file &&
        hth_signing_key_load(NULL, setup->runtime.signing_key_file, &key, &err) != HEARTH_OK)
        hth_problems_add(problems, "%s", err.message);
    hth_signing_key_free(key);
}

static void check_tls(const hth_server_options *options, hth_problems *problems)
{
    hth_tls *tls = NULL;
    hearth_error err;

    if (options->tls_certificate && options->tls_key &&
        hth_tls_new(options->tls_certificate, options->tls_key, &tls, &err) != HEARTH_OK)
        hth_problems_add(problems, "%s", err.message);
    hth_tls_free(tls);
}

static void check_fleet(const hth_server_options *options, hth_problems *problems)
{
    hth_fleet_pem *pem = NULL;
    hearth_error err;

    if (options->fleet.file && hth_fleet_pem_read(options->fleet.file, &pem, &err) != HEARTH_OK)
        hth_problems_add(problems, "%s", err.message);
    hth_fleet_pem_free(pem);
    if (options->fleet.store && hth_store_check(options->fleet.store, options->fleet.store_password_file,
                                                options->fleet.store_authorities, &err) != HEARTH_OK)
        hth_problems_add(problems, "%s", err.message);
}

/* Check the directory of a file that the server writes; it must exist. */
static void check_parent(const char *what, const char *path, hth_problems *problems)
{
    char *parent = path ? strdup(path) : NULL;
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (slash) {
        slash[slash == parent] = '\0';
        if (access(parent, F_OK) != 0)
            hth_problems_add(problems, "%s '%s' is not there: %s", what, parent, strerror(errno));
        else
            check_writable(what, parent, problems);
    }
    free(parent);
}

static void check_name(const hth_server_address *address, hth_problems *problems)
{
    struct addrinfo *found = NULL;
    int rc = address->host ? getaddrinfo(address->host, NULL, NULL, &found) : 0;

    if (rc != 0)
        hth_problems_add(problems, "the address to listen on '%s' cannot be resolved: %s", address->host,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    if (found)
        freeaddrinfo(found);
}

static void check_memory(const hth_server_options *options, hth_problems *problems)
{
    const uint64_t memory = hth_os_memory_bytes();
    const uint64_t rows = hth_server_ram_total(options);

    if (memory > 0 && rows > memory / 2)
        hth_problems_warn(problems,
                          "the rows of the models may take %llu MiB of this machine's %llu MiB of memory, without the "
                          "weights; 'residency.ram' (--ram-total) limits all of them",
                          (unsigned long long)(rows >> 20), (unsigned long long)(memory >> 20));
}

void hth_serve_check_model(const hth_serve_model *model, hth_problems *problems)
{
    check_model_file(model, problems);
    if (model->setup.chat_template && !hth_chat_template_is_given(model->setup.chat_template))
        check_readable("the chat template", model->setup.chat_template, problems);
    check_readable("the chat template", model->setup.chat_template_file, problems);
    check_signing_key(&model->setup, problems);
    check_readable("the folder of adapters (lora_dir)", model->setup.adapters.directory, problems);
}

void hth_serve_set_check(const hth_serve_set *set, bool thorough, hth_problems *problems)
{
    const hth_server_options *options = &set->options;

    for (size_t i = 0; i < options->n_models; i++) {
        hth_serve_check_model(&set->models[i], problems);
        if (thorough)
            check_cache(set, i, problems);
    }
    check_memory(options, problems);
    check_folder("the folder of saved slots (slot_save_path)", options->worker.slot_directory, problems);
    check_pressure_library(options->pressure_library, problems);
    if (!thorough)
        return;
    check_tls(options, problems);
    check_fleet(options, problems);
    check_writable("the runtime directory", options->runtime_directory, problems);
    check_parent("the directory of the log", options->log_file, problems);
    for (size_t i = 0; i < options->n_listen; i++) {
        check_parent("the directory of the socket", options->listen[i].path, problems);
        check_name(&options->listen[i], problems);
    }
    check_parent("the directory of the operators' socket", options->admin.path, problems);
    check_name(&options->admin, problems);
}

/*
 * sandbox_paths.c - the paths that a worker needs
 */
#include "worker/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "engine/engine_options.h"
#include "models/adapter_spec.h"
#include "rows/directory.h"

enum {
    MODEL_FILES_MAX = 2 * HTH_GGUF_PARTS_MAX, /* including those of a draft model */
    READ_MAX = 3 + MODEL_FILES_MAX + HTH_ADAPTERS_MAX + HEARTH_CONTROL_VECTORS_MAX,
    WRITE_MAX = 24,
    PATH_BYTES = 4096,
};

typedef struct list {
    hth_sandbox_paths paths; /* must be first: the caller gets a pointer to it */
    const char *read[READ_MAX + 1];
    const char *digests[MODEL_FILES_MAX + 1];
    const char *write[WRITE_MAX + 1];
    uint16_t ports[HTH_RPC_SERVERS_MAX + 1];
    char default_cache[PATH_BYTES];
    char socket_folder[PATH_BYTES];
    char nvidia_cache[PATH_BYTES];
    char given[]; /* copies of the caller's strings */
} list;

/* The caller's strings, one after another. */
typedef struct strings {
    char *at;
    size_t n_bytes;
} strings;

static const char *keep(strings *texts, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = texts->at ? texts->at + texts->n_bytes : NULL;

    texts->n_bytes += n;
    return copy ? memcpy(copy, text, n) : NULL; /* in the counting pass, texts are not used */
}

/* Add all files of a model: they may be links, so allowing their folder is not enough. Returns n after them. */
static size_t keep_model(list *all, strings *texts, const char *path, size_t n)
{
    const unsigned n_files = hth_gguf_n_files(path);
    char buffer[HTH_GGUF_PATH_BYTES];

    for (unsigned i = 0; i < n_files; i++)
        all->read[n++] = keep(texts, hth_gguf_file(path, i, buffer));
    return n;
}

/* Add the digest files that may exist beside the files of a model. Returns n after them. */
static size_t keep_digests(list *all, strings *texts, const char *path, size_t n)
{
    const unsigned n_files = hth_gguf_n_files(path);
    char buffer[HTH_GGUF_PATH_BYTES], digest[HTH_GGUF_PATH_BYTES];

    for (unsigned i = 0; i < n_files; i++) {
        const int length = snprintf(digest, sizeof(digest), "%s.sha256", hth_gguf_file(path, i, buffer));

        if (length > 0 && (size_t)length < sizeof(digest))
            all->digests[n++] = keep(texts, digest);
    }
    return n;
}

/* Fill the list. A first pass with at NULL counts the bytes. */
static void fill(list *all, strings *texts, const char *model_path, const hearth_model_options *model,
                 const hth_adapter_specs *adapters, const hearth_runtime_options *runtime, const char *slot_directory)
{
    const char *engine = runtime->engine_directory ? runtime->engine_directory : getenv("HEARTH_ENGINE_DIRECTORY");
    size_t n_read = keep_model(all, texts, model_path, 0), n_write = 0, n_digests = 0;

    if (model->draft_model)
        n_read = keep_model(all, texts, model->draft_model, n_read);
    if (model->trust_digests)
        n_digests = keep_digests(all, texts, model_path, 0);
    if (model->trust_digests && model->draft_model)
        n_digests = keep_digests(all, texts, model->draft_model, n_digests);
    all->digests[n_digests] = NULL;
    for (size_t i = 0; i < model->n_control_vectors; i++) {
        hth_control_vector vector;

        if (hth_control_vector_read(model->control_vectors[i], &vector, NULL) == HEARTH_OK) /* else it is refused */
            all->read[n_read++] = keep(texts, vector.path);
    }
    for (size_t i = 0; adapters && i < adapters->n; i++) {
        hth_adapter_spec spec;

        if (hth_adapter_spec_read(adapters->list[i], &spec, NULL) == HEARTH_OK) /* otherwise it is not loaded */
            all->read[n_read++] = keep(texts, spec.path);
    }
    if (adapters && adapters->directory)
        all->read[n_read++] = keep(texts, adapters->directory);
    if (engine)
        all->read[n_read++] = keep(texts, engine);
    if (runtime->signing_key_file)
        all->read[n_read++] = keep(texts, runtime->signing_key_file);
    all->read[n_read] = NULL;

    all->write[n_write++] = all->socket_folder;
    all->write[n_write++] = all->nvidia_cache;
    if (model->host_weights)
        all->write[n_write++] = keep(texts, model->host_weights);
    if (slot_directory)
        all->write[n_write++] = keep(texts, slot_directory);
    if (!runtime->cache_disabled) {
        all->write[n_write++] = runtime->cache_directory ? keep(texts, runtime->cache_directory) : all->default_cache;
        for (size_t i = 0; i < runtime->n_more_directories && i < 16; i++)
            all->write[n_write++] = keep(texts, runtime->more_directories[i]);
        if (runtime->index_directory)
            all->write[n_write++] = keep(texts, runtime->index_directory);
        if (runtime->ram_file_directory)
            all->write[n_write++] = keep(texts, runtime->ram_file_directory);
    }
    all->write[n_write] = NULL;
}

static void fill_own(list *all, const char *socket_path)
{
    const char *slash = socket_path ? strrchr(socket_path, '/') : NULL;
    const char *home = getenv("HOME");
    int n = slash ? (int)(slash - socket_path) : 1;

    if (!hth_cache_default_directory(all->default_cache, sizeof(all->default_cache)))
        all->default_cache[0] = '\0';
    n = snprintf(all->socket_folder, sizeof(all->socket_folder), "%.*s", n, slash ? socket_path : ".");
    if (!socket_path || n < 0 || (size_t)n >= sizeof(all->socket_folder))
        all->socket_folder[0] = '\0'; /* binding a socket with such a name fails, too */
    if (n == 0)
        memcpy(all->socket_folder, "/", 2);
    n = home ? snprintf(all->nvidia_cache, sizeof(all->nvidia_cache), "%s/.nv", home) : -1;
    if (n < 0 || (size_t)n >= sizeof(all->nvidia_cache))
        all->nvidia_cache[0] = '\0'; /* without it, kernels are recompiled each time */
}

/* Loading the model refuses a malformed list. */
static void fill_ports(list *all, const char *rpc_servers)
{
    hth_rpc_addresses addresses;
    unsigned n = 0;

    if (rpc_servers && hth_rpc_addresses_read(rpc_servers, &addresses, NULL) == HEARTH_OK)
        for (; n < addresses.n; n++)
            all->ports[n] = addresses.ports[n];
    all->ports[n] = 0;
}

hth_sandbox_paths *hth_sandbox_paths_of_worker(const char *model_path, const hth_adapter_specs *adapters,
                                               const hearth_model_options *model, const hearth_runtime_options *runtime,
                                               const char *socket_path, const char *slot_directory)
{
    list *all, probe = { .read = { NULL } };
    strings texts = { .at = NULL };

    fill(&probe, &texts, model_path, model, adapters, runtime, slot_directory);
    all = malloc(sizeof(*all) + texts.n_bytes);
    if (!all)
        return NULL;
    texts = (struct strings){ .at = all->given };
    fill_own(all, socket_path);
    fill(all, &texts, model_path, model, adapters, runtime, slot_directory);
    fill_ports(all, model->rpc_servers);
    all->paths =
        (hth_sandbox_paths){ .read = all->read, .own_files = all->digests, .write = all->write, .ports = all->ports };
    return &all->paths;
}

void hth_sandbox_paths_free(hth_sandbox_paths *paths)
{
    free(paths);
}

/*
 * serve_config.c - the precedence of the sources of options
 *
 *   1. defaults
 *   2. the configuration file, without its models
 *   3. for a model in the file, its presets in their order, then its section
 *   4. flags
 *
 * A later source overrides earlier ones, so a flag for models applies to all of them. The flags are read once for
 * options of the server, and again over each section.
 */
#include "options/serve_config.h"

#include <limits.h>
#include <string.h>

#include "base/status.h"
#include "front/model_names.h"
#include "options/key_file.h"
#include "options/serve_config_inside.h"
#include "options/values.h"
#include "rows/directory.h"

/* ---- the file ---- */

/* Add the sections with a name below node, `model "NAME" { ... }`, to a list. */
static void add_sections(const hth_config_reader *reader, const hth_config_node *node, const char *example,
                         const hth_config_node **list, size_t n_max, size_t *n)
{
    const bool is_section = node->kind == HTH_CONFIG_SECTION;

    for (const hth_config_node *one = is_section ? node->first : NULL; one; one = one->next) {
        if (one->kind != HTH_CONFIG_SECTION) {
            hth_problems_add(reader->problems, "%s:%u: a %s has a name and a section: %s", reader->name, one->key_line,
                             node->key, example);
            return;
        }
        if (*n == n_max) {
            hth_problems_add(reader->problems, "%s:%u: %s '%.64s' is one too many; at most %d are allowed",
                             reader->name, one->key_line, node->key, one->key, (int)n_max);
            return;
        }
        list[(*n)++] = one;
    }
    if (!is_section || !node->first)
        hth_problems_add(reader->problems, "%s:%u: '%s' is no section with a name, such as %s", reader->name,
                         node->line, node->key, example);
}

static void add_named_sections(const hth_config_reader *reader, const hth_config_node *node, void *user_data)
{
    hth_serve_loader *l = user_data;

    if (strcmp(node->key, "preset") == 0)
        add_sections(reader, node, "preset \"small\" { context = 4096 }", l->presets.sections, HTH_CONFIG_PRESETS_MAX,
                     &l->presets.n);
    else
        add_sections(reader, node, "model \"chat\" { path = \"chat.gguf\" }", l->sections, HTH_SERVE_MODELS_MAX,
                     &l->n_sections);
}

/* Read the tree of a file; its relative paths are relative to the folder of path. */
static void read_tree(hth_serve_loader *l, const char *name, const char *path, const hth_config_node *root)
{
    const hth_config_scope scope = {
        .prefix = "", .where = "here", .own_keys = { "model", "preset" }, .read_own = add_named_sections, .user_data = l
    };

    l->reader = (hth_config_reader){ .name = name,
                                     .directory = hth_config_directory(l->pool, path),
                                     .root = &hth_serve_keys,
                                     .pool = l->pool,
                                     .problems = l->problems };
    l->presets.directory = l->reader.directory;
    if (l->reader.directory)
        hth_config_read(&l->reader, root, &hth_serve_keys, l->o, &scope);
    else
        (void)hth_serve_no_memory(l); /* problems has the error */
}

static void read_file(hth_serve_loader *l, const char *path)
{
    hth_config_file file;
    hearth_error err;

    if (hth_config_file_read(l->pool, path, &file, &err) == HEARTH_OK)
        read_tree(l, file.name, path, file.root);
    else
        hth_problems_add(l->problems, "%s", err.message);
}

/* ---- addresses ---- */

static void add_listen(hth_serve_loader *l, const char *text)
{
    hth_serve_options *o = l->o;

    if (!text)
        (void)hth_serve_no_memory(l); /* which reports the error */
    else if (o->n_listen == HTH_SERVE_LISTEN_MAX)
        hth_problems_add(l->problems, "'%s' is one address too many to listen on; at most %d are allowed", text,
                         HTH_SERVE_LISTEN_MAX);
    else
        o->listen[o->n_listen++] = text;
}

/*
 * Add one host of --host: a name, an address with or without brackets, or a unix socket, which llama-server recognises
 * by ".sock".
 */
static void add_host(hth_serve_loader *l, const char *host, size_t n)
{
    const unsigned port = l->o->has_port ? l->o->port : HTH_ADDRESS_PORT;

    while (n > 0 && host[0] == ' ') {
        host++;
        n--;
    }
    while (n > 0 && host[n - 1] == ' ')
        n--;
    if (n >= HTH_SERVE_VALUE_BYTES)
        hth_problems_add(l->problems, "--host '%.60s...' is too long", host);
    else if (n > 5 && strncmp(host, "unix:", 5) == 0)
        add_listen(l, hth_pool_text(l->pool, host, n));
    else if (n > 5 && strncmp(host + n - 5, ".sock", 5) == 0)
        add_listen(l, hth_pool_format(l->pool, "unix:%.*s", (int)n, host));
    else if (n > 0)
        add_listen(l, hth_pool_format(l->pool, memchr(host, ':', n) && host[0] != '[' ? "[%.*s]:%u" : "%.*s:%u", (int)n,
                                      host, port));
}

/* --host and --port replace the list of addresses. Without any address, the default is used. */
static void choose_listen(hth_serve_loader *l, const hth_serve_options *flags)
{
    hth_serve_options *o = l->o;

    if ((o->n_hosts > 0 || o->has_port) && flags->n_listen > 0)
        hth_problems_add(l->problems, "--listen and --host or --port exclude each other; --listen HOST:PORT says both");
    if (o->n_hosts == 0 && !o->has_port && o->n_listen > 0)
        return;
    o->n_listen = 0;
    for (size_t i = 0; i < o->n_hosts; i++) {
        const char *at = o->hosts[i];
        size_t n = strcspn(at, ",");

        add_host(l, at, n);
        while (at[n] == ',') {
            at += n + 1;
            n = strcspn(at, ",");
            add_host(l, at, n);
        }
    }
    if (o->n_listen == 0 && o->n_hosts > 0)
        hth_problems_add(l->problems, "--host '%s' names no host", o->hosts[0]);
    if (o->n_listen == 0)
        add_host(l, "127.0.0.1", strlen("127.0.0.1"));
}

static bool read_address(const hth_serve_loader *l, const char *shown, const char **text, hth_server_address *out)
{
    char host[HTH_ADDRESS_HOST_BYTES];
    const char *path;
    hearth_error err;

    *out = (hth_server_address){ .host = NULL };
    if (!hth_address_read(shown, *text, host, sizeof(host), &out->port, &path, &err)) {
        hth_problems_add(l->problems, "%s", err.message);
        return false;
    }
    if (path) {
        out->path = hth_serve_absolute(l, path);
        *text = hth_pool_format(l->pool, "unix:%s", out->path);
        return *text || hth_serve_no_memory(l);
    }
    out->host = hth_pool_text(l->pool, host, strlen(host));
    return out->host || hth_serve_no_memory(l);
}

/* Is the address reachable from this machine only? */
static bool is_private(const hth_server_address *address)
{
    static const char digits[] = "0123456789.";
    const char *host = address->host;

    return !host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (strncmp(host, "127.", 4) == 0 && !host[strspn(host, digits)]);
}

static bool is_same(const hth_server_address *a, const hth_server_address *b)
{
    if (a->path || b->path)
        return a->path && b->path && strcmp(a->path, b->path) == 0;
    return a->port == b->port && a->port != 0 && strcmp(a->host, b->host) == 0;
}

static void check_addresses(const hth_serve_loader *l, const hth_server_address *list, size_t n)
{
    const hth_serve_options *o = l->o;
    const hth_server_address *admin = &l->set->options.admin;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            if (is_same(&list[i], &list[j]))
                hth_problems_add(l->problems, "the address '%s' to listen on is given twice", o->listen[i]);
        if (o->admin && is_same(&list[i], admin))
            hth_problems_add(l->problems,
                             "the operators' address '%s' is one of those that clients use; give it "
                             "another, or leave 'admin' out and use a key with 'admin = true'",
                             o->admin);
        if (!is_private(&list[i]) && !hth_serve_asks_for_keys(o) && !o->server.allow_public_without_keys)
            hth_problems_add(
                l->problems,
                "'%s' can be reached from other machines, but no keys are required: make a file of keys "
                "with 'hearth key new --name NAME --file keys.conf' and name it with 'keys' (--keys), give one with "
                "--api-key-file FILE, or say "
                "allow_public_without_keys = true (--allow-public-without-keys)",
                o->listen[i]);
    }
    if (o->admin && !is_private(admin) && !o->server.allow_public_without_keys)
        hth_problems_add(l->problems,
                         "the operators' address '%s' can be reached from other machines, and asks for no key: use one "
                         "of 127.0.0.1, or leave 'admin' out and use a key with 'admin = true'",
                         o->admin);
}

static bool read_addresses(hth_serve_loader *l)
{
    hth_serve_options *o = l->o;
    hth_server_address *list = hth_pool_alloc(l->pool, HTH_SERVE_LISTEN_MAX * sizeof(*list));
    bool ok = true;

    if (!list)
        return hth_serve_no_memory(l);
    for (size_t i = 0; i < o->n_listen; i++)
        ok &= read_address(l, "listen", &o->listen[i], &list[i]);
    if (o->admin)
        ok &= read_address(l, "admin", &o->admin, &l->set->options.admin);
    if (ok)
        check_addresses(l, list, o->n_listen);
    l->set->options.listen = list;
    l->set->options.n_listen = ok ? o->n_listen : 0;
    return ok;
}

/* ---- the whole set ---- */

static void check_server(const hth_serve_loader *l)
{
    const hth_server_options *server = &l->o->server;

    if (!server->tls_certificate != !server->tls_key)
        hth_problems_add(l->problems, "TLS needs both a certificate and its key; %s is missing",
                         server->tls_certificate ? "tls.key (--tls-key)" : "tls.certificate (--tls-certificate)");
    if (server->http.bodies_bytes_max < server->worker.requests.body_bytes_max)
        hth_problems_add(l->problems,
                         "limits.bodies_bytes_max (--bodies-bytes-max) has to be as large as limits.body_bytes_max "
                         "(--body-bytes-max): one request could not be read otherwise");
    if (server->log_prompts)
        hth_problems_warn(l->problems, "bodies of requests go into the log, prompts included (log.prompts)");
}

/* The file is beside the rows that models share. Without such a folder, the data is in memory only. */
static const char *learned_path(const hth_serve_loader *l)
{
    const hearth_runtime_options *runtime = &l->o->defaults.setup.runtime;
    char directory[PATH_MAX];

    if (runtime->cache_disabled)
        return NULL;
    if (runtime->cache_directory)
        return hth_pool_format(l->pool, "%s/needs", runtime->cache_directory);
    return hth_cache_default_directory(directory, sizeof(directory)) ? hth_pool_format(l->pool, "%s/needs", directory)
                                                                     : NULL;
}

/* The file and the flags were read: complete the set. */
static void finish(hth_serve_loader *l, const hth_serve_options *flags)
{
    hth_server_options *options = &l->set->options;

    hth_serve_make_absolute(l, &hth_serve_keys, l->o);
    hth_serve_setup_make_absolute(l, &l->o->defaults.setup);
    choose_listen(l, flags);
    check_server(l);
    *options = l->o->server;
    l->named = flags->named;
    l->n_named = flags->n_named;
    if (!read_addresses(l) || !hth_serve_models_read(l) || !hth_serve_workers_make(l))
        return;
    hth_serve_check_default_model(l);
    l->set->presets = l->presets;
    options->learned_path = learned_path(l);
    options->cors_origins = l->o->origins;
    options->n_cors_origins = l->o->n_origins;
}

hth_serve_set *hth_serve_set_new(int argc, char **argv, const hth_serve_options *flags, hth_problems *problems)
{
    hth_serve_loader *l = hth_serve_loader_new(problems);

    if (!l)
        return NULL;
    l->argc = argc;
    l->argv = argv;
    if (flags->config_file)
        read_file(l, flags->config_file);
    hth_serve_apply_flags(l, l->o);
    finish(l, flags);
    if (l->o->keys_file)
        hth_key_file_read(l->pool, l->o->keys_file, &l->set->options, problems);
    hth_api_keys_add(l->pool, l->o->api_keys, l->o->n_api_keys, l->o->api_key_file, &l->set->options, problems);
    return l->set;
}

hth_serve_set *hth_serve_set_of_text(const char *name, const char *text, size_t n, hth_problems *problems)
{
    const hth_serve_options no_flags = { .n_listen = 0 };
    hth_serve_loader *l = hth_serve_loader_new(problems);
    const hth_config_node *root;
    hearth_error err;

    if (!l)
        return NULL;
    if (hth_config_file_parse(l->pool, name, text, n, &root, &err) == HEARTH_OK)
        read_tree(l, name, name, root);
    else
        hth_problems_add(problems, "%s", err.message);
    finish(l, &no_flags);
    return l->set;
}

void hth_serve_set_free(const hth_server_options *options)
{
    const hth_serve_set *set = (const hth_serve_set *)options;

    while (set && --*set->n_users == 0) {
        const hth_serve_set *base = set->base;

        hth_pool_free(set->pool);
        set = base;
    }
}

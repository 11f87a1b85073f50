/*
 * cache_show.c - `hearth cache stat` and `hearth cache ls`: show the contents of a cache
 *
 * This never turns a directory into a cache. All facts are collected first and printed afterwards, so a slow terminal
 * keeps no transaction open, and other processes can write.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/json_values.h"
#include "base/utf8.h"
#include "cli/cache_options.h"
#include "cli/result_json.h"
#include "console/output.h"
#include "options/commands.h"
#include "rows/row_file.h"
#include "rows/row_forest.h"
#include "wire/lines.h"

enum { PREFIXES_SHOWN = 5, MODEL_COLUMNS = 18 };

typedef hth_cache_command_options options;

/*
 * ---- the most used prefixes ----
 *
 * Rows form trees: the parent of a row is the row of its parent key. All rows of a tree begin with the same tokens,
 * those of its root, which is a block or, for a short prompt, a tail.
 */

typedef struct prefix {
    hth_key root;
    uint64_t hits; /* of its most used row, because a request uses a row once */
    uint64_t rows;
    uint64_t bytes;
    uint32_t n_tokens_max; /* of the longest prefix in the tree */
} prefix;

static int most_hits_first(const void *a, const void *b)
{
    const prefix *left = a, *right = b;

    if (left->hits != right->hits)
        return left->hits < right->hits ? 1 : -1;
    return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

static void add(prefix *sum, const hth_row_meta *row)
{
    uint32_t end = row->first_position + row->n_tokens;

    sum->rows++;
    sum->bytes += row->bytes;
    if (row->hit_count > sum->hits)
        sum->hits = row->hit_count;
    if (end > sum->n_tokens_max)
        sum->n_tokens_max = end;
}

/*
 * Write the trees with the most hits to top[capacity], most used first, and their number to *n_out. A row whose
 * ancestors are not among rows counts as a tree of its own. False if out of memory.
 */
static bool rank_prefixes(const hth_row_meta *rows, size_t n_rows, prefix *top, size_t capacity, size_t *n_out)
{
    size_t n = 0, n_roots = 0;
    hth_row_node *nodes = hth_row_forest_new(rows, n_rows, &n);
    size_t *roots = malloc((n + 1) * sizeof(*roots)); /* of each node, the index of its sum */
    prefix *sums = calloc(n + 1, sizeof(*sums));

    if (nodes && roots && sums) {
        for (size_t i = 0; i < n; i++) {
            const bool is_root = nodes[i].parent == HTH_ROW_FOREST_ROOT;

            roots[i] = is_root ? n_roots : roots[nodes[i].parent];
            if (is_root && nodes[i].row->n_tokens == 0)
                continue; /* logits alone are not a prefix */
            if (is_root)
                sums[n_roots++].root = nodes[i].row->id.key;
            add(&sums[roots[i]], nodes[i].row);
        }
        qsort(sums, n_roots, sizeof(*sums), most_hits_first);
        *n_out = n_roots < capacity ? n_roots : capacity;
        memcpy(top, sums, *n_out * sizeof(*top));
    }
    free(nodes);
    free(roots);
    free(sums);
    return nodes && roots && sums;
}

/*
 * ---- the models that rows belong to ----
 *
 * A row's file has the name of its model, but the index does not. A row and its parent belong to the same model. So the
 * file of a row is read only if its parent is not among the rows, or does not name its model.
 */

typedef struct row_models {
    char **names; /* [n_names], printable; the first is "", for rows that name no model or cannot be read */
    size_t n_names;
    size_t *of_rows; /* [n_rows], indexes into names */
} row_models;

enum { NAME_BYTES = 256, UNKNOWN = 0 };

/*
 * The index of a name, which is added if it is new; SIZE_MAX if out of memory. A linear search is enough for the few
 * models of a machine.
 */
static size_t intern(row_models *models, const char *name)
{
    char **names;
    char *copy;

    for (size_t i = 0; i < models->n_names; i++)
        if (strcmp(models->names[i], name) == 0)
            return i;
    names = realloc(models->names, (models->n_names + 1) * sizeof(*names));
    if (names)
        models->names = names;
    copy = names ? strdup(name) : NULL;
    if (!copy)
        return SIZE_MAX;
    names[models->n_names] = copy;
    return models->n_names++;
}

static size_t read_one(hth_file_tier_set *files, const hth_row_id *id, row_models *models)
{
    const hth_fs *fs = hth_file_tier_fs(hth_file_tier_set_roots(files)[0]);
    char name[NAME_BYTES] = "";
    size_t n_bytes = 0;
    int fd = -1;

    if (hth_file_tier_set_open_file(files, id, &fd, &n_bytes, NULL) == HEARTH_OK) {
        if (hth_row_file_model(fs, fd, id, n_bytes, name, sizeof(name), NULL) != HEARTH_OK)
            name[0] = '\0';
        hth_fs_close(fs, fd);
    }
    hth_make_printable(name);
    return intern(models, name);
}

/* Read the models of rows[n_rows] from their files. *out must be all zeros. False if out of memory. */
static bool read_row_models(hth_file_tier_set *files, const hth_row_meta *rows, size_t n_rows, row_models *out)
{
    size_t n_nodes = 0;
    hth_row_node *nodes = hth_row_forest_new(rows, n_rows, &n_nodes);
    bool done = nodes && intern(out, "") == UNKNOWN;

    out->of_rows = calloc(n_rows + 1, sizeof(*out->of_rows));
    done = done && out->of_rows;
    for (size_t i = 0; i < n_rows && done; i++)
        out->of_rows[i] = SIZE_MAX;
    for (size_t i = 0; i < n_nodes && done; i++) {
        const size_t parent = nodes[i].parent;
        size_t model = parent == HTH_ROW_FOREST_ROOT ? UNKNOWN : out->of_rows[nodes[parent].row - rows];

        if (model == UNKNOWN)
            model = read_one(files, &nodes[i].row->id, out);
        done = model != SIZE_MAX;
        if (done)
            out->of_rows[nodes[i].row - rows] = model;
    }
    for (size_t i = 0; i < n_rows && done; i++) {
        if (out->of_rows[i] == SIZE_MAX) /* a copy in another root has no node */
            out->of_rows[i] = read_one(files, &rows[i].id, out);
        done = out->of_rows[i] != SIZE_MAX;
    }
    free(nodes);
    return done;
}

/* ---- contents ---- */

typedef struct contents {
    hth_row_list list; /* least recently used first */
    const options *filter;

    row_models models; /* of the displayed rows, or of all for totals */
    size_t n_hidden;   /* the first rows, which --limit hides */

    bool complete;
    uint64_t quota; /* of all roots; 0: unknown */
    size_t n_quarantined;
    hth_pins pins;
    hth_pins broken; /* pins of prefixes with missing rows */
    hth_pin_totals pinned;
} contents;

static bool passes(const hth_row_meta *meta, const options *o)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    if ((o->kind != HTH_ROW_KINDS && meta->id.kind != o->kind) || meta->hit_count < o->hits_min)
        return false;
    if (!o->key_prefix)
        return true;
    hth_hex_encode(meta->id.key.bytes, HTH_KEY_BYTES, hex);
    return strncmp(hex, o->key_prefix, strlen(o->key_prefix)) == 0;
}

static bool collect(const hth_row_meta *meta, void *user_data)
{
    contents *c = user_data;

    return !passes(meta, c->filter) || hth_row_list_add(&c->list, meta);
}

/* Add the rows and totals of a root's index. On failure nothing is added. */
static hearth_status ask_index(hth_index *index, contents *out, uint64_t *quota_out, hearth_error *err)
{
    size_t n_before = out->list.n;
    hth_index_totals totals;
    hearth_status status = hth_index_totals_get(index, &totals, err);

    out->list.out_of_memory = false;
    if (status == HEARTH_OK)
        status = hth_index_quota(index, quota_out, err);
    if (status == HEARTH_OK)
        status = hth_index_visit(index, true, collect, out, err);
    if (status == HEARTH_OK && out->list.out_of_memory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to list the rows; use --limit or --kind");
    if (status == HEARTH_OK)
        out->complete = out->complete && totals.complete;
    else
        out->list.n = n_before;
    return status;
}

static hearth_status look_at_root(hth_file_tier *tier, contents *out, uint64_t *quota_out, hearth_error *err)
{
    hearth_status status = ask_index(hth_file_tier_index(tier), out, quota_out, err);

    if (status == HEARTH_CORRUPT || status == HEARTH_IO) { /* damaged: it is rebuilt */
        hth_file_tier_maintain(tier);
        hth_file_tier_settle(tier);
        status = ask_index(hth_file_tier_index(tier), out, quota_out, err);
    }
    out->n_quarantined += hth_quarantine_count(hth_file_tier_fs(tier), hth_file_tier_quarantine_directory(tier));
    return status;
}

static int compare_use(const void *a, const void *b)
{
    const hth_row_meta *left = a, *right = b;

    if (left->last_used_time != right->last_used_time)
        return left->last_used_time < right->last_used_time ? -1 : 1;
    return memcmp(left->id.key.bytes, right->id.key.bytes, HTH_KEY_BYTES);
}

/* The caller must call contents_deinit in any case. */
static hearth_status look(const options *o, contents *out, hearth_error *err)
{
    hth_file_tier_set *files = NULL;
    hearth_status status = hth_cache_command_open(o, HTH_CACHE_TO_LOOK, &files, err);
    bool knows_quotas = true;
    size_t n_roots;

    if (status != HEARTH_OK)
        return status;
    out->filter = o;
    out->complete = true;
    n_roots = hth_file_tier_set_n_roots(files);
    for (size_t i = 0; i < n_roots && status == HEARTH_OK; i++) {
        uint64_t quota = 0;

        status = look_at_root(hth_file_tier_set_roots(files)[i], out, &quota, err);
        knows_quotas = knows_quotas && quota > 0;
        out->quota += quota;
    }
    if (status == HEARTH_OK)
        status = hth_file_tier_set_pins(files, &out->pins, err);
    if (status == HEARTH_OK)
        status = hth_file_tier_set_pin_totals(files, &out->broken, &out->pinned, err);
    if (!knows_quotas)
        out->quota = 0;
    if (n_roots > 1 && out->list.n > 0)
        qsort(out->list.rows, out->list.n, sizeof(*out->list.rows), compare_use);
    if (o->verb == HTH_CACHE_LS && out->list.n > o->limit)
        out->n_hidden = out->list.n - o->limit;
    if (status == HEARTH_OK &&
        !read_row_models(files, out->list.rows + out->n_hidden, out->list.n - out->n_hidden, &out->models))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the models of the rows; use --limit or --kind");
    hth_file_tier_set_close(files);
    return status;
}

static void contents_deinit(contents *c)
{
    hth_pins_deinit(&c->pins);
    hth_pins_deinit(&c->broken);
    for (size_t i = 0; i < c->models.n_names; i++)
        free(c->models.names[i]);
    free(c->models.names);
    free(c->models.of_rows);
    free(c->list.rows);
}

/* The model of a displayed row; "" if unknown. */
static const char *model_of(const contents *c, size_t row)
{
    return c->models.names[c->models.of_rows[row - c->n_hidden]];
}

/* ---- printing ---- */

/* "2026-01-31 12:00:00", local time. */
static const char *time_text(uint64_t seconds, char text[32])
{
    time_t time = (time_t)seconds;
    struct tm parts;

    if (!localtime_r(&time, &parts) || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(text, 32, "%" PRIu64, seconds);
    return text;
}

typedef struct sums {
    uint64_t rows[HTH_ROW_KINDS];
    uint64_t bytes[HTH_ROW_KINDS];
    uint64_t n_bytes;
    uint64_t n_hits;
    uint64_t n_used; /* rows that served a request */
} sums;

static sums sum_up(const contents *c)
{
    sums s = { .n_hits = 0 };

    for (size_t i = 0; i < c->list.n; i++) {
        s.rows[c->list.rows[i].id.kind]++;
        s.bytes[c->list.rows[i].id.kind] += c->list.rows[i].bytes;
        s.n_bytes += c->list.rows[i].bytes;
        s.n_hits += c->list.rows[i].hit_count;
        s.n_used += c->list.rows[i].hit_count > 0;
    }
    return s;
}

/* The rows and bytes of a model. */
typedef struct model_sums {
    const char *name;
    uint64_t rows;
    uint64_t bytes;
} model_sums;

static int most_bytes_first(const void *a, const void *b)
{
    const model_sums *left = a, *right = b;

    return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

/* The sums of c->models.n_names models, as an array that the caller frees; NULL if out of memory. */
static model_sums *sum_up_models(const contents *c)
{
    model_sums *models = calloc(c->models.n_names, sizeof(*models));

    if (!models)
        return NULL;
    for (size_t i = 0; i < c->models.n_names; i++)
        models[i].name = c->models.names[i];
    for (size_t i = 0; i < c->list.n; i++) {
        models[c->models.of_rows[i]].rows++;
        models[c->models.of_rows[i]].bytes += c->list.rows[i].bytes;
    }
    qsort(models, c->models.n_names, sizeof(*models), most_bytes_first);
    return models;
}

static bool print_models(const contents *c)
{
    model_sums *models = sum_up_models(c);

    if (!models)
        return false;
    for (size_t i = 0; i < c->models.n_names && models[i].rows > 0; i++) {
        char n_rows[32], size[32];

        if (i == 0)
            printf("models\n");
        printf("  %s  %s, %s\n", *models[i].name ? models[i].name : "(unknown)",
               hth_count_text(models[i].rows, "row", n_rows), hth_size_text(models[i].bytes, size));
    }
    free(models);
    return true;
}

/* A name, or null for rows that name no model. */
static json_t *model_json(const char *name)
{
    return *name ? json_string(name) : json_null();
}

static json_t *models_json(const contents *c)
{
    model_sums *models = sum_up_models(c);
    json_t *array = models ? json_array() : NULL;

    for (size_t i = 0; array && i < c->models.n_names && models[i].rows > 0; i++)
        (void)json_array_append_new(array, json_pack("{s:o, s:I, s:I}", "name", model_json(models[i].name), "rows",
                                                     (json_int_t)models[i].rows, "bytes",
                                                     (json_int_t)models[i].bytes)); /* likewise */
    free(models);
    return array;
}

/* Print the most used prefixes. */
static bool print_prefixes(const contents *c)
{
    prefix top[PREFIXES_SHOWN];
    size_t n;

    if (!rank_prefixes(c->list.rows, c->list.n, top, PREFIXES_SHOWN, &n))
        return false;
    for (size_t i = 0; i < n && top[i].hits > 0; i++) {
        char key[2 * HTH_KEY_BYTES + 1], hits[32], n_rows[32], a[32];

        if (i == 0)
            printf("top prefixes, by hits\n");
        printf("  %s  %s, %s, %s, up to %" PRIu32 " tokens\n", hth_cache_command_key_text(&top[i].root, false, key),
               hth_count_text(top[i].hits, "hit", hits), hth_count_text(top[i].rows, "row", n_rows),
               hth_size_text(top[i].bytes, a), top[i].n_tokens_max);
    }
    return true;
}

static json_t *prefixes_json(const contents *c)
{
    prefix top[PREFIXES_SHOWN];
    json_t *array = json_array();
    size_t n = 0;

    if (!rank_prefixes(c->list.rows, c->list.n, top, PREFIXES_SHOWN, &n)) {
        json_decref(array);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(
            array, json_pack("{s:o, s:I, s:I, s:I, s:I}", "key", hth_json_hex(top[i].root.bytes, HTH_KEY_BYTES), "hits",
                             (json_int_t)top[i].hits, "rows", (json_int_t)top[i].rows, "bytes",
                             (json_int_t)top[i].bytes, "tokens", (json_int_t)top[i].n_tokens_max)); /* likewise */
    }
    return array;
}

/* NULL if there are none, or if out of memory. */
static json_t *more_directories_json(const options *o)
{
    json_t *array = o->n_more_directories > 0 ? json_array() : NULL;

    for (size_t i = 0; i < o->n_more_directories; i++)
        (void)json_array_append_new(array, json_string(o->more_directories[i])); /* non-UTF-8 names are missing */
    return array;
}

/* NULL if out of memory. */
static json_t *broken_json(const contents *c)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < c->broken.n; i++) /* checked at the end */
        (void)json_array_append_new(array, hth_json_hex(c->broken.keys[i].bytes, HTH_KEY_BYTES));
    return array;
}

static bool print_stat_json(const options *o, const contents *c, const sums *s)
{
    json_t *kinds = json_object();
    json_t *object;

    for (int kind = 0; kind < HTH_ROW_KINDS; kind++)
        (void)json_object_set_new(kinds, hth_row_kind_name((hth_row_kind)kind),
                                  json_pack("{s:I, s:I}", "rows", (json_int_t)s->rows[kind], "bytes",
                                            (json_int_t)s->bytes[kind])); /* checked at the end */
    object =
        json_pack("{s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:b, s:o, s:o}", "directory", o->directory, "rows",
                  (json_int_t)c->list.n, "bytes", (json_int_t)s->n_bytes, "kinds", kinds, "hits", (json_int_t)s->n_hits,
                  "rows_used", (json_int_t)s->n_used, "quarantined", (json_int_t)c->n_quarantined, "complete",
                  (int)c->complete, "top_prefixes", prefixes_json(c), "models", models_json(c));
    if (!object)
        return hth_say("the directory's name is no UTF-8, or there is no memory", false);
    if (o->n_more_directories > 0)
        (void)json_object_set_new(object, "more_directories", more_directories_json(o));
    (void)json_object_set_new(object, "pinned",
                              json_pack("{s:I, s:I, s:I, s:o}", "prefixes", (json_int_t)c->pinned.prefixes, "rows",
                                        (json_int_t)c->pinned.rows, "bytes", (json_int_t)c->pinned.bytes, "broken",
                                        broken_json(c)));
    (void)json_object_set_new(object, "quota_bytes", c->quota ? json_integer((json_int_t)c->quota) : json_null());
    (void)json_object_set_new(object, "oldest_use",
                              c->list.n ? json_integer((json_int_t)c->list.rows[0].last_used_time) : json_null());
    (void)json_object_set_new(object, "newest_use",
                              c->list.n ? json_integer((json_int_t)c->list.rows[c->list.n - 1].last_used_time)
                                        : json_null());
    return hth_json_print(object, false);
}

static bool print_stat(const options *o, const contents *c)
{
    sums s = sum_up(c);
    char a[32], b[32];

    if (o->as_json)
        return print_stat_json(o, c, &s);
    printf("directory    %s\n", o->directory);
    for (size_t i = 0; i < o->n_more_directories; i++)
        printf("and          %s\n", o->more_directories[i]);
    if (c->list.n == 0 && c->complete)
        printf("rows         0: the cache is empty; 'hearth run' fills it\n");
    else
        printf("rows         %zu, %s%s\n", c->list.n, hth_size_text(s.n_bytes, a),
               c->complete ? "" : " (more are being counted)");
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++)
        if (s.rows[kind] > 0)
            printf("  %-10s %" PRIu64 ", %s\n", hth_row_kind_name((hth_row_kind)kind), s.rows[kind],
                   hth_size_text(s.bytes[kind], a));
    if (c->quota)
        printf("quota        %s\n", hth_size_text(c->quota, a));
    if (c->list.n > 0)
        printf("last used    %s to %s\n", time_text(c->list.rows[0].last_used_time, a),
               time_text(c->list.rows[c->list.n - 1].last_used_time, b));
    if (c->list.n > 0)
        printf("hits         %" PRIu64 ", %" PRIu64 " of %s used again\n", s.n_hits, s.n_used,
               hth_count_text(c->list.n, "row", a));
    if (c->pinned.prefixes > 0)
        printf("pinned       %" PRIu64 " prefixes: %s, %s\n", c->pinned.prefixes,
               hth_count_text(c->pinned.rows, "row", a), hth_size_text(c->pinned.bytes, b));
    for (size_t i = 0; i < c->broken.n; i++) {
        char key[2 * HTH_KEY_BYTES + 1];

        printf("  broken     %s (rows are missing: run its prompt again, or unpin it)\n",
               hth_cache_command_key_text(&c->broken.keys[i], false, key));
    }
    printf("quarantined  %zu\n", c->n_quarantined);
    return print_models(c) && print_prefixes(c);
}

static bool print_rows_json(const contents *c)
{
    json_t *array = json_array();

    for (size_t i = c->list.n; i-- > c->n_hidden;) {
        const hth_row_meta *row = &c->list.rows[i];

        if (json_array_append_new(
                array, json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "key",
                                 hth_json_hex(row->id.key.bytes, HTH_KEY_BYTES), "kind",
                                 hth_row_kind_name(row->id.kind), "first_position", (json_int_t)row->first_position,
                                 "tokens", (json_int_t)row->n_tokens, "bytes", (json_int_t)row->bytes, "last_used_time",
                                 (json_int_t)row->last_used_time, "hits", (json_int_t)row->hit_count, "pinned",
                                 (int)hth_pins_has(&c->pins, &row->id.key), "model", model_json(model_of(c, i)))) !=
            0) {
            json_decref(array);
            return false;
        }
    }
    return hth_json_print(array, false);
}

/* Write as much of a model's name as fits in a line; a truncated name ends in two dots. */
static const char *short_name(const char *name, bool is_pinned, char text[MODEL_COLUMNS + 1])
{
    size_t n_max = MODEL_COLUMNS - (is_pinned ? sizeof("pinned") : 0), n = n_max - 2;

    if (!*name)
        return "-";
    if (strlen(name) <= n_max)
        return name;
    while (n > 0 && hth_utf8_goes_on(name[n])) /* truncate at a character */
        n--;
    (void)snprintf(text, MODEL_COLUMNS + 1, "%.*s..", (int)n, name);
    return text;
}

static bool print_rows(const options *o, const contents *c)
{
    const uint64_t now = (uint64_t)time(NULL);
    const int n_key = o->full_keys ? 2 * HTH_KEY_BYTES : HTH_CACHE_KEY_DIGITS;

    if (o->as_json)
        return print_rows_json(c);
    if (c->list.n == 0)
        return hth_sayf(true, "no such row is cached in '%s'; 'hearth run' fills it", o->directory);
    printf("%-*s %-8s %8s %6s %10s %6s %5s %s\n", n_key, "KEY", "KIND", "POSITION", "TOKENS", "SIZE", "UNUSED", "HITS",
           "MODEL");
    for (size_t i = c->list.n; i-- > c->n_hidden;) {
        const hth_row_meta *row = &c->list.rows[i];
        const bool is_pinned = hth_pins_has(&c->pins, &row->id.key);
        char key[2 * HTH_KEY_BYTES + 1], size[32], unused[32], model[MODEL_COLUMNS + 1];

        printf("%s %-8s %8" PRIu32 " %6" PRIu32 " %10s %6s %5" PRIu32 " %s%s\n",
               hth_cache_command_key_text(&row->id.key, o->full_keys, key), hth_row_kind_name(row->id.kind),
               row->first_position, row->n_tokens, hth_size_text(row->bytes, size),
               hth_time_text(now > row->last_used_time ? (now - row->last_used_time) * 1000 : 0, unused),
               row->hit_count, o->full_keys ? model_of(c, i) : short_name(model_of(c, i), is_pinned, model),
               is_pinned ? " pinned" : "");
    }
    return true;
}

/* ---- the verbs ---- */

int hth_cache_show(const hth_cache_command_options *o)
{
    hearth_error err = { .message = "" };
    contents c = { .list = { .n = 0 } };
    hearth_status status = look(o, &c, &err);
    int result;

    if (status != HEARTH_OK) {
        result = hth_cache_command_fail(status, &err);
    } else {
        result = (o->verb == HTH_CACHE_LS ? print_rows(o, &c) : print_stat(o, &c)) ? HTH_EXIT_OK : HTH_EXIT_FAILED;
        if (result != HTH_EXIT_OK && !ferror(stdout))
            (void)fputs("hearth: no memory for the output\n", stderr);
        result = hth_output_end(result);
    }
    contents_deinit(&c);
    return result;
}

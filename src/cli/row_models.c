/*
 * row_models.c - read the first row of each tree, and assign its model to its descendants
 */
#include "cli/row_models.h"

#include <stdlib.h>

#include "rows/row_file.h"
#include "rows/row_forest.h"
#include "wire/lines.h"

enum { NAME_BYTES = 256, UNKNOWN = 0 };

/*
 * The index of a name, which is added if it is new; SIZE_MAX if out of memory. A linear search is enough for the few
 * models of a machine.
 */
static size_t intern(hth_row_models *models, const char *name)
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

static size_t read_one(hth_file_tier_set *files, const hth_row_id *id, hth_row_models *models)
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

bool hth_row_models_read(hth_file_tier_set *files, const hth_row_meta *rows, size_t n_rows, hth_row_models *out)
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

void hth_row_models_deinit(hth_row_models *models)
{
    for (size_t i = 0; i < models->n_names; i++)
        free(models->names[i]);
    free(models->names);
    free(models->of_rows);
}

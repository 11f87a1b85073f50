#include "wire/needs_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/gguf_name.h"

#define BYTES_MAX (UINT64_C(1) << 50) /* of one number: sums of them do not overflow */

enum { LINE_BYTES = 256, NUMBERS_MAX = 6 };

void hth_needs_write(const hth_model_needs *needs, hth_buffer *out)
{
    const hth_engine_needs *memory = &needs->memory;
    char line[LINE_BYTES];

    for (size_t i = 0; i < memory->n_devices; i++) {
        const hth_engine_device_share *device = &memory->devices[i];

        (void)snprintf(line, sizeof(line), "device %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.63s\n",
                       device->share.weight_bytes, device->share.cell_bytes, device->share.compute_bytes,
                       device->free_bytes, device->total_bytes, device->name); /* fits, as below */
        hth_buffer_add_text(out, line);
    }
    if (needs->fit.n_ctx_max > 0) {
        (void)snprintf(line, sizeof(line), "fit %u %u %u\n", needs->fit.n_ctx_max, needs->fit.n_layers,
                       needs->fit.n_layers_max);
        hth_buffer_add_text(out, line);
    }
    (void)snprintf(line, sizeof(line), "host %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n",
                   memory->host.weight_bytes, memory->repacked_bytes, memory->host.cell_bytes,
                   memory->host.compute_bytes, needs->process_bytes, needs->n_ctx);
    hth_buffer_add_text(out, line);
}

/* Read numbers, each after a blank. Returns the rest of the text; NULL: it has another form. */
static const char *read_numbers(const char *text, uint64_t out[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *end;

        if (text[0] != ' ' || text[1] < '0' || text[1] > '9')
            return NULL;
        out[i] = strtoull(text + 1, &end, 10);
        if (out[i] > BYTES_MAX)
            return NULL;
        text = end;
    }
    return text;
}

static bool read_device(const char *text, hth_engine_needs *to)
{
    hth_engine_device_share *device = &to->devices[to->n_devices];
    uint64_t numbers[NUMBERS_MAX];

    text = read_numbers(text, numbers, 5);
    if (!text || text[0] != ' ' || !text[1] || to->n_devices == HTH_DEVICES_MAX)
        return false;
    *device = (hth_engine_device_share){
        .share = { .weight_bytes = numbers[0], .cell_bytes = numbers[1], .compute_bytes = numbers[2] },
        .free_bytes = numbers[3],
        .total_bytes = numbers[4],
    };
    (void)snprintf(device->name, sizeof(device->name), "%s", text + 1); /* cut if too long */
    to->n_devices++;
    return true;
}

static bool read_fit(const char *text, hth_model_fit *fit)
{
    uint64_t numbers[3];

    text = read_numbers(text, numbers, 3);
    if (!text || *text || numbers[0] < 1 || numbers[0] > UINT32_MAX || numbers[2] > UINT32_MAX ||
        numbers[1] > numbers[2])
        return false;
    *fit = (hth_model_fit){
        .n_ctx_max = (uint32_t)numbers[0],
        .n_layers = (uint32_t)numbers[1],
        .n_layers_max = (uint32_t)numbers[2],
    };
    return true;
}

bool hth_needs_read(const char *line, hth_model_needs *needs)
{
    uint64_t numbers[NUMBERS_MAX];
    const char *rest;

    if (strncmp(line, "device", 6) == 0)
        return read_device(line + 6, &needs->memory);
    if (strncmp(line, "fit", 3) == 0)
        return read_fit(line + 3, &needs->fit);
    rest = strncmp(line, "host", 4) == 0 ? read_numbers(line + 4, numbers, 6) : NULL;
    if (!rest || *rest || numbers[5] < 1 || numbers[5] > UINT32_MAX)
        return false;
    needs->memory.host = (hth_engine_share){
        .weight_bytes = numbers[0],
        .cell_bytes = numbers[2],
        .compute_bytes = numbers[3],
    };
    needs->memory.repacked_bytes = numbers[1];
    needs->process_bytes = numbers[4];
    needs->n_ctx = (uint32_t)numbers[5];
    return true;
}

void hth_found_write(const hth_fit_found_device *found, char text[HTH_FOUND_TEXT_BYTES])
{
    (void)snprintf(text, HTH_FOUND_TEXT_BYTES, "%" PRIu64 ":%.63s", found->bytes, found->name); /* fits */
}

bool hth_found_read(const char *text, hth_fit_found_device *out)
{
    char *end;
    uint64_t bytes;

    if (text[0] < '0' || text[0] > '9')
        return false;
    bytes = strtoull(text, &end, 10);
    if (bytes > BYTES_MAX || *end != ':' || !end[1] || strlen(end + 1) >= sizeof(out->name))
        return false;
    out->bytes = bytes;
    memcpy(out->name, end + 1, strlen(end + 1) + 1);
    return true;
}

uint64_t hth_needs_host_bytes(const hth_model_needs *needs)
{
    return hth_engine_share_bytes(&needs->memory.host) + needs->memory.repacked_bytes + needs->process_bytes;
}

uint64_t hth_needs_device_bytes(const hth_model_needs *needs)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < needs->memory.n_devices; i++)
        sum += hth_engine_share_bytes(&needs->memory.devices[i].share);
    return sum;
}

uint64_t hth_model_files_bytes(const char *path)
{
    const unsigned n = path && *path ? hth_gguf_n_files(path) : 0;
    char buffer[HTH_GGUF_PATH_BYTES];
    struct stat st;
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++)
        if (stat(hth_gguf_file(path, i, buffer), &st) == 0 && st.st_size > 0)
            sum += (uint64_t)st.st_size;
    return sum;
}

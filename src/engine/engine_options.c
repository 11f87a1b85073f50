#include "engine/engine_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/structs.h"

enum { UBATCH_MAX = 65536, THREADS_MAX = 1024, LAYERS_MAX = 10000 };

/* ---- texts ---- */

hearth_status hth_tensor_split_read(const char *text, float out[HTH_DEVICES_MAX], size_t *n_out, hearth_error *err)
{
    const char *at = text;
    double sum = 0;
    size_t n = 0;

    for (;; at++) {
        char *end;
        double share = (float)strtod(at, &end);

        if (end == at || (*end && *end != ',' && *end != '/') || !(share >= 0 && share <= 1e9) || n == HTH_DEVICES_MAX)
            return hth_fail(err, HEARTH_MISUSE,
                            "tensor_split is '%.200s'; it must be 1 to %d shares that are not negative, such as 3,1",
                            text, HTH_DEVICES_MAX);
        out[n++] = (float)share;
        sum += share;
        at = end;
        if (!*at)
            break;
    }
    if (sum <= 0)
        return hth_fail(err, HEARTH_MISUSE, "tensor_split is '%.200s'; one of the shares must be above 0", text);
    *n_out = n;
    return HEARTH_OK;
}

/* The item at *at without its comma, of *n bytes; *at moves past both. */
static const char *next_item(const char **at, size_t *n)
{
    const char *item = *at;

    *n = strcspn(item, ",");
    *at = item + *n + (item[*n] == ',');
    return item;
}

/* Copy n bytes as a non-empty string. False if n is 0 or they do not fit. */
static bool copy(char *to, size_t capacity, const char *from, size_t n)
{
    if (n == 0 || n >= capacity)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static const char *last_equals(const char *item, size_t n)
{
    while (n > 0 && item[n - 1] != '=')
        n--;
    return n > 0 ? item + n - 1 : NULL;
}

hearth_status hth_tensor_override_read(const char **at, hth_tensor_override *out, hearth_error *err)
{
    size_t n;
    const char *item = next_item(at, &n), *equals = last_equals(item, n);

    if (!equals || !copy(out->pattern, sizeof(out->pattern), item, (size_t)(equals - item)) ||
        !copy(out->buffer, sizeof(out->buffer), equals + 1, n - (size_t)(equals + 1 - item)))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.*s' overrides no tensor; give PATTERN=BUFFER, such as ffn_.*_exps=CPU, with a pattern of "
                        "at most 511 bytes",
                        (int)(n < 200 ? n : 200), item);
    return HEARTH_OK;
}

static bool read_integer(const char *text, int64_t *out)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && errno == 0 && value >= INT32_MIN && value <= UINT32_MAX;
}

static bool read_number(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && !*end && isfinite((float)*out);
}

static bool read_value(hth_metadata_override *out, char *text)
{
    static const char *const types[] = { "int:", "float:", "bool:", "str:" };
    size_t type = 0, n;

    while (type < 4 && strncmp(text, types[type], strlen(types[type])) != 0)
        type++;
    if (type == 4)
        return false;
    out->type = (hth_metadata_type)type;
    text += strlen(types[type]);
    n = strlen(text);
    switch (out->type) {
    case HTH_METADATA_INT: return read_integer(text, &out->integer);
    case HTH_METADATA_FLOAT: return read_number(text, &out->number);
    case HTH_METADATA_BOOL: out->flag = strcmp(text, "true") == 0; return out->flag || strcmp(text, "false") == 0;
    case HTH_METADATA_STR: break;
    }
    if (n >= sizeof(out->text))
        return false;
    memcpy(out->text, text, n + 1);
    return true;
}

hearth_status hth_metadata_override_read(const char **at, hth_metadata_override *out, hearth_error *err)
{
    size_t n;
    const char *item = next_item(at, &n), *equals = memchr(item, '=', n);
    char value[160];

    *out = (hth_metadata_override){ .type = HTH_METADATA_INT };
    if (!equals || !copy(out->key, sizeof(out->key), item, (size_t)(equals - item)) ||
        !copy(value, sizeof(value), equals + 1, n - (size_t)(equals + 1 - item)) || !read_value(out, value))
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.*s' overrides no metadata; give KEY=TYPE:VALUE with int, float, bool or str, such as "
                        "tokenizer.ggml.add_bos_token=bool:false; texts have at most 127 bytes",
                        (int)(n < 200 ? n : 200), item);
    return HEARTH_OK;
}

/* ---- options ---- */

static hearth_status check_lists(const hearth_engine_options *o, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    if (o->n_tensor_overrides > HEARTH_TENSOR_OVERRIDES_MAX || (o->n_tensor_overrides > 0 && !o->tensor_overrides))
        return hth_fail(err, HEARTH_MISUSE, "tensor_overrides is NULL, or has %zu entries; it must be at most %d",
                        o->n_tensor_overrides, HEARTH_TENSOR_OVERRIDES_MAX);
    if (o->n_metadata_overrides > HEARTH_METADATA_OVERRIDES_MAX ||
        (o->n_metadata_overrides > 0 && !o->metadata_overrides))
        return hth_fail(err, HEARTH_MISUSE, "metadata_overrides is NULL, or has %zu entries; it must be at most %d",
                        o->n_metadata_overrides, HEARTH_METADATA_OVERRIDES_MAX);
    for (size_t i = 0; i < o->n_tensor_overrides && status == HEARTH_OK; i++) {
        const char *at = o->tensor_overrides[i];
        hth_tensor_override one;

        if (!at)
            return hth_fail(err, HEARTH_MISUSE, "tensor_overrides[%zu] is NULL", i);
        do
            status = hth_tensor_override_read(&at, &one, err);
        while (status == HEARTH_OK && *at);
    }
    for (size_t i = 0; i < o->n_metadata_overrides && status == HEARTH_OK; i++) {
        const char *at = o->metadata_overrides[i];
        hth_metadata_override one;

        if (!at)
            return hth_fail(err, HEARTH_MISUSE, "metadata_overrides[%zu] is NULL", i);
        do
            status = hth_metadata_override_read(&at, &one, err);
        while (status == HEARTH_OK && *at);
    }
    return status;
}

/* NAN means not given. */
static hearth_status check_number(const char *name, double value, double low, hearth_error *err)
{
    if (isnan(value) || (value >= low && value <= 1e9))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "%s is %g; it must be %g to 1e9", name, value, low);
}

static hearth_status check_rope(const hearth_engine_options *o, hearth_error *err)
{
    const double least = 1e-6;
    const struct {
        const char *name;
        double value, low;
    } numbers[] = {
        { "rope_freq_base", o->rope_freq_base, least }, { "rope_freq_scale", o->rope_freq_scale, least },
        { "yarn_ext_factor", o->yarn_ext_factor, 0 },   { "yarn_attn_factor", o->yarn_attn_factor, 0 },
        { "yarn_beta_slow", o->yarn_beta_slow, 0 },     { "yarn_beta_fast", o->yarn_beta_fast, 0 },
    };
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == HEARTH_OK; i++)
        status = check_number(numbers[i].name, numbers[i].value, numbers[i].low, err);
    if (status == HEARTH_OK && o->yarn_orig_ctx > INT32_MAX)
        return hth_fail(err, HEARTH_MISUSE, "yarn_orig_ctx is %u; it must be at most %d", o->yarn_orig_ctx, INT32_MAX);
    return status;
}

hearth_status hth_engine_options_read(const hearth_engine_options *given, hearth_engine_options *out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    float shares[HTH_DEVICES_MAX];
    size_t n_shares;

    *out = hearth_engine_options_default();
    if (given)
        status = hth_struct_read(out, sizeof(*out), given, "hearth_engine_options", err);
    if (status != HEARTH_OK)
        return status;
    if (out->n_ubatch > UBATCH_MAX || out->n_threads_batch > THREADS_MAX || out->main_gpu >= HTH_DEVICES_MAX ||
        out->n_cpu_moe > LAYERS_MAX)
        return hth_fail(err, HEARTH_MISUSE,
                        "n_ubatch is %u, n_threads_batch %u, main_gpu %u and n_cpu_moe %u; they must be at most %d, "
                        "%d, %d and %d",
                        out->n_ubatch, out->n_threads_batch, out->main_gpu, out->n_cpu_moe, UBATCH_MAX, THREADS_MAX,
                        HTH_DEVICES_MAX - 1, LAYERS_MAX);
    if ((unsigned)out->flash_attention > HEARTH_FLASH_ATTENTION_OFF || (unsigned)out->numa > HEARTH_NUMA_NUMACTL ||
        (unsigned)out->split_mode > HEARTH_SPLIT_MODE_ROW || (unsigned)out->rope_scaling > HEARTH_ROPE_SCALING_YARN)
        return hth_fail(err, HEARTH_MISUSE,
                        "flash_attention is %d, numa %d, split_mode %d and rope_scaling %d; one of them does not exist",
                        (int)out->flash_attention, (int)out->numa, (int)out->split_mode, (int)out->rope_scaling);
    if (out->tensor_split)
        status = hth_tensor_split_read(out->tensor_split, shares, &n_shares, err);
    if (status == HEARTH_OK)
        status = check_lists(out, err);
    return status == HEARTH_OK ? check_rope(out, err) : status;
}

hearth_engine_options hth_engine_options_of_draft(const hearth_engine_options *target, bool target_has_servers)
{
    hearth_engine_options options = hearth_engine_options_default();

    options.n_ubatch = target->n_ubatch;
    options.n_threads_batch = target->n_threads_batch;
    options.flash_attention = target->flash_attention;
    options.numa = target->numa;
    options.devices = target->devices;
    options.no_kv_offload = target->no_kv_offload;
    options.mlock = target->mlock;
    if (target_has_servers)
        return options;
    options.split_mode = target->split_mode;
    options.main_gpu = target->main_gpu;
    options.tensor_split = target->tensor_split;
    return options;
}

bool hth_engine_options_turn(const hearth_engine_options *o)
{
    return o->rope_scaling != HEARTH_ROPE_SCALING_MODEL || o->yarn_orig_ctx > 0 || !isnan(o->rope_freq_base) ||
           !isnan(o->rope_freq_scale) || !isnan(o->yarn_ext_factor) || !isnan(o->yarn_attn_factor) ||
           !isnan(o->yarn_beta_slow) || !isnan(o->yarn_beta_fast);
}

/* ---- addresses of RPC servers ---- */

/* The port of "host:port", or 0. For the engine, the host ends at the first colon and must have an IPv4 address. */
static uint16_t port_of(const char *address)
{
    const char *colon = strchr(address, ':');
    char *rest = NULL;
    unsigned long port;

    if (!colon || colon == address || colon[1] < '0' || colon[1] > '9')
        return 0;
    port = strtoul(colon + 1, &rest, 10);
    return *rest || port > UINT16_MAX ? 0 : (uint16_t)port;
}

static hearth_status read_one(const char *text, size_t n, hth_rpc_addresses *out, hearth_error *err)
{
    char *address = out->texts[out->n];

    if (out->n == HTH_RPC_SERVERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "there are more than %d RPC servers in '%s'", HTH_RPC_SERVERS_MAX, text);
    if (n >= HTH_RPC_ADDRESS_BYTES)
        return hth_fail(err, HEARTH_MISUSE, "an RPC server's address of %zu bytes is too long", n);
    memcpy(address, text, n);
    address[n] = '\0';
    out->ports[out->n] = port_of(address);
    if (out->ports[out->n] == 0)
        return hth_fail(err, HEARTH_MISUSE,
                        "'%s' is no address of an RPC server: a name or IPv4 address, a colon and a port are", address);
    for (unsigned i = 0; i < out->n; i++)
        if (strcmp(out->texts[i], address) == 0)
            return hth_fail(err, HEARTH_MISUSE, "the RPC server '%s' is named twice", address);
    out->n++;
    return HEARTH_OK;
}

hearth_status hth_rpc_addresses_read(const char *text, hth_rpc_addresses *out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    out->n = 0;
    while (status == HEARTH_OK) {
        size_t n = strcspn(text, ",");

        status = read_one(text, n, out, err);
        if (!text[n])
            break;
        text += n + 1;
    }
    return status;
}

/*
 * default_options.c - the rows of request values, and the recommendations beside a model
 */
#include "options/default_options.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/backend.h"
#include "options/values.h"
#include "sampling/sampling.h"

/* The largest integer that all JSON readers preserve: 2^53 - 1. */
#define SEED_MAX 9007199254740991.0

enum { CONFIG_BYTES_MAX = 64 << 10 };

static const char *const reasonings[] = {
    [HTH_API_REASONING_AUTO] = "auto",
    [HTH_API_REASONING_ON] = "on",
    [HTH_API_REASONING_OFF] = "off",
    [HTH_API_REASONING_OFF + 1] = NULL,
};

static bool check_message(const char *shown, const char *value, hearth_error *err)
{
    size_t n = strlen(value);

    return (n >= 1 && n <= HTH_THINKING_MESSAGE_BYTES_MAX) ||
           hth_value_wrong(shown, value, "a text of 1 to 1024 bytes", err);
}

static bool check_values(const char *shown, const char *value, hearth_error *err)
{
    hearth_error problem;

    return (strlen(value) <= HTH_API_DEFAULT_VALUES_BYTES_MAX && hth_api_template_values_check(value, &problem)) ||
           hth_value_wrong(shown, value,
                           "a JSON object of at most 16 KiB, such as {\"enable_thinking\": false}, without messages, "
                           "tools, bos_token, eos_token and add_generation_prompt",
                           err);
}

/* ---- the tables ---- */

#define AT(field) offsetof(hth_api_defaults, field)

static const hth_option thinking_rows[] = {
    { "reasoning", 0, HTH_OPTION_WORD, "WHEN",
      "reasoning before the answer, where the template supports it: on, off, or auto (the default of each API)",
      .offset = AT(reasoning), .words = reasonings, .key = "reasoning", .is_common = true },
    { "chat-template-kwargs", 0, HTH_OPTION_TEXT, "JSON", "an object with further variables for the chat template",
      .offset = AT(template_values), .check = check_values, .key = "chat_template_kwargs" },
    { "reasoning-budget", 0, HTH_OPTION_COUNT, "N",
      "at most N tokens of reasoning, where the template shows its end; -1: no bound", .offset = AT(thinking_budget),
      .low = -1, .high = INT32_MAX, .key = "reasoning_budget" },
    { "reasoning-budget-message", 0, HTH_OPTION_TEXT, "TEXT", "the last words of reasoning that the budget ends",
      .offset = AT(thinking_message), .check = check_message, .key = "reasoning_budget_message" },
};

const hth_option_table hth_thinking_options = HTH_OPTION_TABLE_OF(thinking_rows);

static bool read_samplers(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_api_defaults *out = options;
    char list[HTH_API_SAMPLER_LIST_BYTES], expected[HTH_API_SAMPLER_LIST_BYTES + 64];
    hearth_error problem;

    out->has_samplers = value != NULL;
    if (!value || hth_api_samplers_read(value, out->samplers, &out->n_samplers, &problem))
        return true;
    hth_api_sampler_list(list);
    (void)snprintf(expected, sizeof(expected), "samplers in order, such as top_k;temperature: %s", list); /* fits */
    return hth_value_wrong(shown, value, expected, err);
}

static bool write_samplers(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_api_defaults *from = options;
    size_t n = 0;

    if (i > 0 || !from->has_samplers || capacity == 0)
        return false;
    text[0] = '\0';
    for (size_t k = 0; k < from->n_samplers; k++) {
        int n_more = snprintf(text + n, capacity - n, "%s%s", k > 0 ? ";" : "", hearth_sampler_name(from->samplers[k]));

        if (n_more < 0 || (size_t)n_more >= capacity - n)
            return false;
        n += (size_t)n_more;
    }
    return true;
}

/* The kind of option for each kind of number. */
enum {
    KIND_REAL = HTH_OPTION_NUMBER,
    KIND_OFF = HTH_OPTION_NUMBER,
    KIND_MINUS = HTH_OPTION_NUMBER,
    KIND_SIGNED = HTH_OPTION_COUNT,
    KIND_COUNT = HTH_OPTION_COUNT,
    KIND_WINDOW = HTH_OPTION_COUNT,
};
#define NUMBER(field, name, config, kind, least, most, usual, flags, flag, shown, text) \
    { flag,                                                                             \
      0,                                                                                \
      (hth_option_kind)KIND_##kind,                                                     \
      shown,                                                                            \
      text,                                                                             \
      .offset = AT(sampling.field),                                                     \
      .low = (least),                                                                   \
      .high = (most),                                                                   \
      .key = #field,                                                                    \
      .is_common = ((flags)&HTH_NUMBER_COMMON) != 0 },

static const hth_option sampling_rows[] = {
    HTH_SAMPLING_NUMBERS_EACH(NUMBER){
        "samplers", 0, HTH_OPTION_OWN, "LIST",
        "the steps of the chain in order, such as \"top_k;temperature\", or letters: \"kt\"; others are off",
        .read = read_samplers, .write = write_samplers, .key = "samplers" },
};

const hth_option_table hth_sampling_options = HTH_OPTION_TABLE_OF(sampling_rows);

static const hth_option rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_sampling_options },
    { "predict", 'n', HTH_OPTION_COUNT, "N",
      "at most N tokens a reply; -1: until the model ends or the context is full", .offset = AT(n_predict), .low = -1,
      .high = INT32_MAX, .key = "n_predict", .is_common = true },
    { "stop", 0, HTH_OPTION_TEXTS, "TEXT", "end replies before TEXT; may be repeated", .offset = AT(stop),
      .n_offset = AT(n_stop), .n_max = HTH_API_DEFAULT_STOPS_MAX, .repeats = true, .key = "stop" },
    { "seed", 0, HTH_OPTION_COUNT, "S", "the seed of requests without one: the same request gives the same reply",
      .offset = AT(seed), .low = 0, .high = SEED_MAX, .key = "seed" },
    { "priority", 0, HTH_OPTION_COUNT, "N",
      "priority of requests without one, -100 to 100; a higher one runs first and may preempt running requests",
      .offset = AT(priority), .low = -100, .high = 100, .key = "priority" },
    { "system", 0, HTH_OPTION_TEXT, "TEXT", "the system message of conversations that have none", .offset = AT(system),
      .key = "system", .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_thinking_options },
};

const hth_option_table hth_default_options = HTH_OPTION_TABLE_OF(rows);

/* ---- recommendations beside a model ---- */

/* Read only a regular file: the folder may belong to another user. */
static size_t read_file(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size <= capacity)
        n = read(fd, text, capacity);
    (void)close(fd); /* only read */
    return n > 0 ? (size_t)n : 0;
}

hth_api_defaults hth_default_options_beside(const char *model_path)
{
    const char *slash = strrchr(model_path, '/');
    const int n_folder = slash ? (int)(slash - model_path) + 1 : 0;
    char path[PATH_MAX], text[CONFIG_BYTES_MAX];
    size_t n = 0;

    if (hth_model_path_is_file(NULL, model_path) &&
        (size_t)snprintf(path, sizeof(path), "%.*sgeneration_config.json", n_folder, model_path) < sizeof(path))
        n = read_file(path, text, sizeof(text));
    return n > 0 ? hth_api_defaults_of_config(text, n) : hth_api_defaults_none();
}

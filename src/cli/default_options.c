/*
 * default_options.c - see default_options.h
 */
#include "cli/default_options.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/values.h"
#include "engine/backend.h"

/* Numbers that JSON readers keep exactly: 2^53 - 1. */
#define SEED_MAX 9007199254740991.0

enum { CONFIG_BYTES_MAX = 64 << 10 };

/* ---- readers and writers ---- */

static bool write_text(const char *value, size_t i, char *text, size_t capacity)
{
    return i == 0 && value && (size_t)snprintf(text, capacity, "%s", value) < capacity;
}

static bool add_stop(void *options, const char *shown, const char *value, hearth_error *err)
{
    hth_api_defaults *out = options;

    return hth_value_add_text(out->stop, &out->n_stop, HTH_API_DEFAULT_STOPS_MAX, shown, value, err);
}

static bool write_stop(const void *options, size_t i, char *text, size_t capacity)
{
    const hth_api_defaults *defaults = options;

    return i < defaults->n_stop && write_text(defaults->stop[i], 0, text, capacity);
}

static const char *const reasonings[] = {
    [HTH_API_REASONING_AUTO] = "auto",
    [HTH_API_REASONING_ON] = "on",
    [HTH_API_REASONING_OFF] = "off",
};

static bool read_reasoning(void *options, const char *shown, const char *value, hearth_error *err)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, reasonings[i]) != 0)
            continue;
        ((hth_api_defaults *)options)->reasoning = (hth_api_reasoning)i;
        return true;
    }
    return hth_value_wrong(shown, value, "auto, on or off", err);
}

static bool write_reasoning(const void *options, size_t i, char *text, size_t capacity)
{
    return write_text(reasonings[((const hth_api_defaults *)options)->reasoning], i, text, capacity);
}

static bool read_values(void *options, const char *shown, const char *value, hearth_error *err)
{
    hearth_error problem;

    if (strlen(value) > HTH_API_DEFAULT_VALUES_BYTES_MAX || !hth_api_template_values_check(value, &problem))
        return hth_value_wrong(
            shown, value,
            "a JSON object of at most 16 KiB, such as {\"enable_thinking\": false}, without messages, "
            "tools, bos_token, eos_token and add_generation_prompt",
            err);
    ((hth_api_defaults *)options)->template_values = value;
    return true;
}

static bool write_values(const void *options, size_t i, char *text, size_t capacity)
{
    return write_text(((const hth_api_defaults *)options)->template_values, i, text, capacity);
}

/* ---- the table ---- */

#define AT(field) offsetof(hth_api_defaults, field)

static const hth_option thinking_rows[] = {
    { "reasoning", 0, HTH_OPTION_OWN, "WHEN",
      "reasoning before the answer, where the template supports it: on, off, or auto (the default of each API)",
      .read = read_reasoning, .write = write_reasoning, .key = "reasoning", .is_common = true },
    { "chat-template-kwargs", 0, HTH_OPTION_OWN, "JSON", "an object with further variables for the chat template",
      .read = read_values, .write = write_values, .key = "chat_template_kwargs" },
};

const hth_option_table hth_thinking_options = { thinking_rows, sizeof(thinking_rows) / sizeof(thinking_rows[0]) };

static const hth_option rows[] = {
    { "temp", 0, HTH_OPTION_NUMBER, "T", "temperature; 0 always takes the likeliest token", .offset = AT(temperature),
      .low = 0, .high = 1000, .key = "temperature", .is_common = true },
    { "top-k", 0, HTH_OPTION_COUNT, "K", "keep the K likeliest tokens; 0 keeps all", .offset = AT(top_k), .low = 0,
      .high = INT32_MAX, .key = "top_k" },
    { "top-p", 0, HTH_OPTION_NUMBER, "P", "keep the likeliest tokens that sum to P", .offset = AT(top_p), .low = 0,
      .high = 1, .key = "top_p" },
    { "min-p", 0, HTH_OPTION_NUMBER, "P", "keep tokens at least P times as likely as the likeliest",
      .offset = AT(min_p), .low = 0, .high = 1, .key = "min_p" },
    { "typical-p", 0, HTH_OPTION_NUMBER, "P", "keep the locally typical tokens that sum to P", .offset = AT(typical_p),
      .low = 0, .high = 1, .key = "typical_p" },
    { "repeat-penalty", 0, HTH_OPTION_NUMBER, "X", "divide the logits of recent tokens by X",
      .offset = AT(repeat_penalty), .low = 0.01, .high = 1000, .key = "repeat_penalty" },
    { "repeat-last-n", 0, HTH_OPTION_COUNT, "N", "number of recent tokens; -1: as many as the context has",
      .offset = AT(repeat_last_n), .low = -1, .high = 65536, .key = "repeat_last_n" },
    { "frequency-penalty", 0, HTH_OPTION_NUMBER, "X",
      "subtract X for each time that a token is among the recent ones, -2 to 2", .offset = AT(frequency_penalty),
      .low = -2, .high = 2, .key = "frequency_penalty" },
    { "presence-penalty", 0, HTH_OPTION_NUMBER, "X", "subtract X once for a token among the recent ones, -2 to 2",
      .offset = AT(presence_penalty), .low = -2, .high = 2, .key = "presence_penalty" },
    { "dry-multiplier", 0, HTH_OPTION_NUMBER, "X", "DRY, against repeated phrases: strength",
      .offset = AT(dry_multiplier), .low = 0, .high = 1000, .key = "dry_multiplier" },
    { "dry-base", 0, HTH_OPTION_NUMBER, "X", "DRY: growth of the penalty with the length of the phrase, from 1 on",
      .offset = AT(dry_base), .low = 1, .high = 1000, .key = "dry_base" },
    { "dry-allowed-length", 0, HTH_OPTION_COUNT, "N", "DRY: repetitions up to N tokens are free",
      .offset = AT(dry_allowed_length), .low = 0, .high = 65536, .key = "dry_allowed_length" },
    { "dry-last-n", 0, HTH_OPTION_COUNT, "N", "DRY: tokens to look back; -1: as many as the context has",
      .offset = AT(dry_last_n), .low = -1, .high = 65536, .key = "dry_last_n" },
    { "xtc-probability", 0, HTH_OPTION_NUMBER, "P", "XTC, exclude top choices: probability",
      .offset = AT(xtc_probability), .low = 0, .high = 1, .key = "xtc_probability" },
    { "xtc-threshold", 0, HTH_OPTION_NUMBER, "P",
      "XTC: remove all tokens at least this likely, except the least likely of them", .offset = AT(xtc_threshold),
      .low = 0, .high = 1, .key = "xtc_threshold" },
    { "predict", 'n', HTH_OPTION_COUNT, "N",
      "at most N tokens a reply; -1: until the model ends or the context is full", .offset = AT(n_predict), .low = -1,
      .high = INT32_MAX, .key = "n_predict", .is_common = true },
    { "stop", 0, HTH_OPTION_OWN, "TEXT", "end replies before TEXT; may be repeated", .read = add_stop,
      .write = write_stop, .repeats = true, .key = "stop" },
    { "seed", 0, HTH_OPTION_COUNT, "S", "the seed of requests without one: the same request gives the same reply",
      .offset = AT(seed), .low = 0, .high = SEED_MAX, .key = "seed" },
    { "system", 0, HTH_OPTION_TEXT, "TEXT", "the system message of conversations that have none", .offset = AT(system),
      .key = "system", .is_common = true },
    { .kind = HTH_OPTION_TABLE, .table = &hth_thinking_options },
};

const hth_option_table hth_default_options = { rows, sizeof(rows) / sizeof(rows[0]) };

/* ---- recommendations beside a model ---- */

/* Of a regular file only: what is there is somebody else's. */
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

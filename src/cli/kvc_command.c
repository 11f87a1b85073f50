/*
 * kvc_command.c - `hearth kvc` and its verb `inspect`: shows every field of a row file, and whether the file is valid
 *
 * Files are read, never mapped: if another process truncated a mapped file, this process would be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/json_values.h"
#include "base/controls.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/status.h"
#include "base/utf8.h"
#include "cli/cache_options.h"
#include "console/output.h"
#include "console/units.h"
#include "hearth.h"
#include "options/commands.h"
#include "options/manual.h"
#include "options/option_table.h"
#include "options/values.h"
#include "rows/key.h"
#include "rows/kvc_signature.h"

enum { HEX_KEY_BYTES = 2 * HTH_KEY_BYTES + 1 };

/* Is value a SHA-256 hash in hex? An hth_option_check_fn. */
static bool kvc_check_hash(const char *shown, const char *value, hearth_error *err)
{
    uint8_t bytes[HTH_KEY_BYTES];

    return hth_hex_decode(value, bytes, sizeof(bytes)) || hth_value_wrong(shown, value, "64 hex digits", err);
}

static const char *fingerprint_mode_name(uint8_t mode)
{
    switch (mode) {
    case HEARTH_FINGERPRINT_SAFE: return "safe";
    case HEARTH_FINGERPRINT_GGUF_CHUNKED: return "gguf_chunked";
    case HEARTH_FINGERPRINT_FAST_UNSAFE: return "fast_unsafe";
    default: return "unknown";
    }
}

/* ---- one file ---- */

typedef enum signature {
    SIGNATURE_NONE,
    SIGNATURE_UNCHECKED, /* present, but no key to check it */
    SIGNATURE_GOOD,
    SIGNATURE_BAD,
} signature;

static const char *const signature_names[] = {
    [SIGNATURE_NONE] = "none",
    [SIGNATURE_UNCHECKED] = "not_checked",
    [SIGNATURE_GOOD] = "verified",
    [SIGNATURE_BAD] = "bad",
};

/* Requirements from the command line for every file. */
typedef struct expectation {
    const char *key_begin;              /* the first digits, or all; NULL: any */
    const hth_signing_key *signing_key; /* NULL: signatures are shown but not checked */
    bool full_keys;
} expectation;

typedef struct inspection {
    const char *path;
    uint8_t *bytes; /* the whole file */
    size_t n_bytes;

    bool head_sound; /* info and key are valid */
    hth_kvc_fault head_fault;
    hth_kvc_info info; /* borrows from bytes */
    hth_key key;       /* the key of the tokens; for a row from the middle, the key that it claims */
    signature signature;

    const char *key_begin; /* as in the expectation */
    bool full_keys;        /* show all digits */
    bool sound;            /* everything verifies, also the expected key and the signature */
    hth_kvc_fault fault;
} inspection;

static bool starts_at_0(const hth_kvc_info *info)
{
    return info->first_position == 0;
}

static hearth_status read_file(const char *path, uint8_t **bytes_out, size_t *n_out, hearth_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not block */
    hearth_status status;
    uint8_t *bytes = NULL;
    size_t n_read = 0;
    struct stat st;
    int result;

    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0) {
        status = hth_fail_errno(err, errno, "cannot look at '%s'", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        status = hth_fail(err, HEARTH_UNSUPPORTED, "'%s' is no regular file; give the path of a row file", path);
        goto out;
    }
    bytes = malloc((size_t)st.st_size + 1); /* an empty file also needs an address */
    if (!bytes) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the %jd bytes of '%s'", (intmax_t)st.st_size, path);
        goto out;
    }
    result = hth_fs_read_full(hth_fs_system(), fd, bytes, (size_t)st.st_size, 0, &n_read);
    if (result < 0) {
        status = hth_fail_errno(err, -result, "cannot read '%s'", path);
        goto out;
    }
    if (n_read < (size_t)st.st_size) {
        status = hth_fail(err, HEARTH_IO, "'%s' became shorter while it was read; try again", path);
        goto out;
    }
    status = HEARTH_OK;
    *bytes_out = bytes;
    *n_out = (size_t)st.st_size;
    bytes = NULL;
out:
    free(bytes);
    (void)close(fd); /* only read, so no data can be lost */
    return status;
}

/* A bad signature alone makes a file invalid; other faults are reported first. */
static void check_signature(inspection *file, const hth_signing_key *key)
{
    hth_kvc_fault fault;
    bool good;

    file->signature = file->info.hmac.data ? SIGNATURE_UNCHECKED : SIGNATURE_NONE;
    if (!key)
        return;
    good = hth_kvc_verify_signature(file->bytes, file->n_bytes, &file->info, key, &fault);
    if (fault.reason != HTH_KVC_UNSIGNED && fault.reason != HTH_KVC_NO_MEMORY)
        file->signature = good ? SIGNATURE_GOOD : SIGNATURE_BAD;
    if (!good && file->sound) {
        file->sound = false;
        file->fault = fault;
    }
}

/*
 * The expected key: the given digits, completed with the file's own, so that it equals the file's key if the given
 * digits match.
 */
static bool expected_key(const inspection *file, hth_key *out)
{
    char digits[HEX_KEY_BYTES];

    if (!file->key_begin || !file->head_sound)
        return false;
    hth_hex_encode(file->key.bytes, HTH_KEY_BYTES, digits);
    memcpy(digits, file->key_begin, strlen(file->key_begin)); /* the options were checked */
    return hth_hex_decode(digits, out->bytes, HTH_KEY_BYTES);
}

static hearth_status inspection_init(inspection *file, const char *path, const expectation *expected, hearth_error *err)
{
    hth_kvc_info info;
    hearth_status status;
    hth_key key;

    *file = (inspection){ .path = path, .key_begin = expected->key_begin, .full_keys = expected->full_keys };
    status = read_file(path, &file->bytes, &file->n_bytes, err);
    if (status != HEARTH_OK)
        return status;

    file->head_sound =
        hth_kvc_parse_meta(file->bytes, file->n_bytes, file->n_bytes, &file->info, &file->head_fault, NULL);
    if (file->head_sound && !starts_at_0(&file->info)) {
        file->key = file->info.own_key;
    } else if (file->head_sound &&
               !hth_key_of_bytes(&file->info.keyspace, file->info.tokens.data, file->info.tokens.n, &file->key)) {
        free(file->bytes);
        file->bytes = NULL;
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the key of '%s'", path);
    }
    file->sound =
        hth_kvc_parse(file->bytes, file->n_bytes, expected_key(file, &key) ? &key : NULL, &info, &file->fault);
    if (file->head_sound)
        check_signature(file, expected->signing_key);
    return HEARTH_OK;
}

/* ---- as JSON: with the names of the reference vectors' sidecars, and of our own records ---- */

static bool set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0; /* fails for NULL, that is, if out of memory */
}

/* A number if JSON readers accept it, otherwise a string of digits: a time can be any 64-bit number. */
static json_t *json_u64(uint64_t value)
{
    char digits[24];

    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, value); /* fits */
    return json_string(digits);
}

static bool is_text(hth_kvc_bytes bytes)
{
    return !memchr(bytes.data, '\0', bytes.n) && hth_utf8_is_valid((const char *)bytes.data, bytes.n);
}

/* null if the record is absent. If it is not text, the value is null and its bytes follow in hex. */
static bool set_text(json_t *object, const char *name, hth_kvc_bytes bytes)
{
    char hex_name[64];

    if (!bytes.data)
        return set(object, name, json_null());
    if (is_text(bytes))
        return set(object, name, json_stringn((const char *)bytes.data, bytes.n));
    (void)snprintf(hex_name, sizeof(hex_name), "%s_hex", name); /* fits: names are ours */
    return set(object, name, json_null()) && set(object, hex_name, hth_json_hex(bytes.data, bytes.n));
}

static json_t *json_tokens(const hth_kvc_info *info)
{
    json_t *tokens = json_array();
    bool ok = tokens != NULL;

    for (size_t i = 0; ok && i < hth_kvc_n_tokens(info); i++)
        ok = json_array_append_new(tokens, json_integer((uint32_t)hth_kvc_token(info, i))) == 0;
    if (!ok) {
        json_decref(tokens);
        return NULL;
    }
    return tokens;
}

static bool set_own_records(json_t *object, const hth_kvc_info *info)
{
    bool ok = true;

    if (info->has_parent)
        ok = set(object, "parent", hth_json_hex(info->parent.bytes, HTH_KEY_BYTES)) && ok;
    if (info->has_first_position)
        ok = set(object, "first_position", json_integer(info->first_position)) && ok;
    if (info->has_kind)
        ok = set(object, "kind", json_string(hth_row_kind_name(info->kind))) && ok;
    if (info->logits.data)
        ok = set(object, "logits_count", json_integer(info->logits.n / 4)) && ok;
    if (info->has_own_key)
        ok = set(object, "own_key", hth_json_hex(info->own_key.bytes, HTH_KEY_BYTES)) && ok;
    if (info->engine_build.data)
        ok = set_text(object, "engine_build", info->engine_build) && ok;
    if (info->model.data)
        ok = set_text(object, "model", info->model) && ok;
    if (info->hmac.data)
        ok = set(object, "hmac", hth_json_hex(info->hmac.data, info->hmac.n)) && ok;
    if (info->has_head_crc)
        ok = set(object, "head_crc32c", json_integer(info->head_crc32c)) && ok;
    return ok;
}

/* NULL if out of memory, like all functions that make JSON here. */
static json_t *json_info(const hth_kvc_info *info)
{
    json_t *object = json_object();
    const hth_keyspace *keyspace = &info->keyspace;
    bool ok =
        set(object, "magic", json_string("KVC")) && set(object, "version", json_integer(HTH_KVC_VERSION)) &&
        set(object, "quant_bits", json_integer(info->quant_bits)) &&
        set(object, "save_reason", json_string(hearth_save_reason_name(info->save_reason))) &&
        set(object, "save_reason_byte", json_integer(info->save_reason)) &&
        set(object, "cached_token_count", json_integer(info->cached_token_count)) &&
        set(object, "hit_count", json_integer(info->hit_count)) &&
        set(object, "context_size", json_integer(info->context_size)) &&
        set(object, "creation_time", json_u64(info->creation_time)) &&
        set(object, "last_used_time", json_u64(info->last_used_time)) &&
        set(object, "payload_byte_count", json_u64(info->image_byte_count)) &&
        set(object, "payload_offset", json_u64(info->image_offset)) &&
        set(object, "payload_length", json_u64(info->image_byte_count)) &&
        set(object, "payload_crc32c", json_integer(info->image_crc32c)) &&
        set(object, "prompt_text",
            is_text(info->prompt) ? json_stringn((const char *)info->prompt.data, info->prompt.n) : json_null()) &&
        set(object, "prompt_text_hex", hth_json_hex(info->prompt.data, info->prompt.n)) &&
        set(object, "fingerprint", hth_json_hex(keyspace->fingerprint, sizeof(keyspace->fingerprint))) &&
        set(object, "fingerprint_mode", json_string(fingerprint_mode_name(keyspace->fingerprint_mode))) &&
        set(object, "fingerprint_mode_byte", json_integer(keyspace->fingerprint_mode)) &&
        set(object, "quant_type", json_string(hth_quant_name(keyspace->quant_byte))) &&
        set(object, "quant_type_byte", json_integer(keyspace->quant_byte)) &&
        set(object, "ctx_params_hash", hth_json_hex(keyspace->ctx_params_hash, sizeof(keyspace->ctx_params_hash))) &&
        set(object, "token_count", json_integer((json_int_t)hth_kvc_n_tokens(info))) &&
        set(object, "tokens", json_tokens(info)) && set_text(object, "hostname", info->hostname) &&
        set_text(object, "writer_version", info->writer_version) &&
        set_text(object, "save_reason_detail", info->save_reason_detail) && set_own_records(object, info);

    if (!ok) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *json_arguments(const hth_kvc_fault *fault)
{
    char expected[HEX_KEY_BYTES], computed[HEX_KEY_BYTES];

    switch (fault->reason) {
    case HTH_KVC_UNSUPPORTED_VERSION:
    case HTH_KVC_UNKNOWN_SAVE_REASON:
    case HTH_KVC_UNKNOWN_FINGERPRINT_MODE:
    case HTH_KVC_UNKNOWN_QUANT_BYTE: return json_pack("[I]", (json_int_t)fault->stored);
    case HTH_KVC_MISSING_TLV:
    case HTH_KVC_BAD_ROW: return json_pack("[s]", fault->name);
    case HTH_KVC_CRC_MISMATCH:
    case HTH_KVC_HEAD_CRC_MISMATCH: return json_pack("[I,I]", (json_int_t)fault->stored, (json_int_t)fault->computed);
    case HTH_KVC_KEY_MISMATCH:
        hth_hex_encode(fault->expected_key.bytes, HTH_KEY_BYTES, expected);
        hth_hex_encode(fault->computed_key.bytes, HTH_KEY_BYTES, computed);
        return json_pack("[s,s]", expected, computed);
    default: return json_array();
    }
}

static json_t *json_verdict(bool sound, const hth_kvc_fault *fault)
{
    if (sound)
        return json_pack("{s:b}", "ok", 1);
    return json_pack("{s:b,s:s,s:o}", "ok", 0, "reason", hth_kvc_reason_name(fault->reason), "args",
                     json_arguments(fault));
}

static json_t *json_image(const inspection *file)
{
    const uint8_t *image = file->bytes + file->info.image_offset;
    size_t n_image = (size_t)file->info.image_byte_count;
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(image, n_image, digest);
    return json_pack("{s:I,s:o,s:I}", "length", (json_int_t)n_image, "sha256", hth_json_hex(digest, sizeof(digest)),
                     "crc32c", (json_int_t)hth_crc32c(0, image, n_image));
}

static bool print_json(const inspection *file)
{
    json_t *object = json_object();
    bool ok = set(object, "file", hth_json_string(file->path)) && set(object, "file_size", json_u64(file->n_bytes)) &&
              set(object, "parse_meta", json_verdict(file->head_sound, &file->head_fault)) &&
              set(object, "parse", json_verdict(file->sound, &file->fault));

    if (ok && file->head_sound)
        ok = set(object, "key", hth_json_hex(file->key.bytes, HTH_KEY_BYTES)) &&
             set(object, "key_basis", json_string(starts_at_0(&file->info) ? "tokens" : "own_key")) &&
             set(object, "signature", json_string(signature_names[file->signature])) &&
             set(object, "info", json_info(&file->info)) && set(object, "payload", json_image(file));
    if (ok)
        ok = json_dumpf(object, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(object);
    return ok;
}

/* ---- as text ---- */

/* After TOKENS_COLUMN_MAX, a token of ten digits, its space and " ..." would not fit in 80 columns. */
enum { LABEL_WIDTH = 19, TOKENS_COLUMN_MAX = 66, TEXT_BYTES_SHOWN = 400 };

static void print_label(const char *label)
{
    printf("  %-*s", LABEL_WIDTH, label);
}

/* Print a line of a label and a formatted value. */
static void print_field(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_field(const char *label, const char *format, ...)
{
    va_list arguments;

    print_label(label);
    va_start(arguments, format);
    (void)vprintf(format, arguments); /* failures are reported at the end */
    va_end(arguments);
    putchar('\n');
}

static void print_hex(const char *label, const uint8_t *bytes, size_t n_bytes)
{
    print_label(label);
    for (size_t i = 0; i < n_bytes; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}

/* Print a key or another hash: its first digits are enough to distinguish it. */
static void print_hash(const inspection *file, const char *label, const uint8_t *bytes, size_t n_bytes)
{
    print_hex(label, bytes, file->full_keys || n_bytes < HTH_CACHE_KEY_DIGITS / 2 ? n_bytes : HTH_CACHE_KEY_DIGITS / 2);
}

/*
 * Does the text contain DEL or control characters from U+0080 on? JSON need not escape them, and a terminal may
 * interpret them.
 */
static bool has_late_controls(hth_kvc_bytes text)
{
    for (uint32_t i = 0; i < text.n; i++)
        if (text.data[i] > 0x20 && hth_control_bytes((const char *)text.data + i, text.n - i) > 0)
            return true;
    return false;
}

/*
 * Print the first bytes of a text in quotes, truncated at a character; in hex if it is not text. Control characters are
 * not printed.
 */
static void print_text(const char *label, hth_kvc_bytes bytes)
{
    hth_kvc_bytes shown = bytes;
    json_t *text = NULL;
    char *quoted = NULL;

    if (shown.n > TEXT_BYTES_SHOWN) {
        shown.n = TEXT_BYTES_SHOWN;
        while (shown.n > TEXT_BYTES_SHOWN - 3 && hth_utf8_goes_on((char)shown.data[shown.n]))
            shown.n--;
    }
    if (is_text(shown))
        text = json_stringn((const char *)shown.data, shown.n);
    if (text)
        quoted = json_dumps(text, JSON_ENCODE_ANY | (has_late_controls(shown) ? JSON_ENSURE_ASCII : 0));
    if (quoted) {
        print_label(label);
        printf("%s", quoted);
        if (shown.n < bytes.n)
            printf(" ... (%" PRIu32 " bytes in all)", bytes.n);
        putchar('\n');
    } else {
        print_hex(label, shown.data, shown.n);
    }
    free(quoted);
    json_decref(text);
}

static void print_time(const char *label, uint64_t seconds)
{
    time_t at = (time_t)seconds;
    struct tm utc;
    char text[64];

    print_label(label);
    if (seconds <= UINT32_MAX && gmtime_r(&at, &utc) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc) > 0)
        printf("%s\n", text);
    else
        printf("%" PRIu64 "\n", seconds); /* not a real time */
}

static void print_tokens(const hth_kvc_info *info)
{
    size_t n = hth_kvc_n_tokens(info), i = 0;
    int column;

    print_label("tokens");
    column = 2 + LABEL_WIDTH + printf("%zu", n);
    for (; i < n && column < TOKENS_COLUMN_MAX; i++)
        column += printf("%s%" PRIu32, i == 0 ? ": " : " ", (uint32_t)hth_kvc_token(info, i));
    printf("%s\n", i < n ? " ..." : "");
}

static void print_own_records(const inspection *file)
{
    const hth_kvc_info *info = &file->info;

    if (info->model.data)
        print_text("model", info->model);
    if (info->has_kind)
        print_field("row kind", "%s", hth_row_kind_name(info->kind));
    if (info->has_first_position)
        print_field("first position", "%" PRIu32, info->first_position);
    if (info->has_parent)
        print_hash(file, "parent key", info->parent.bytes, HTH_KEY_BYTES);
    if (info->has_own_key)
        print_hash(file, "own key", info->own_key.bytes, HTH_KEY_BYTES);
    if (info->logits.data)
        print_field("logits", "%" PRIu32 ", after the last token", info->logits.n / 4);
    if (info->engine_build.data)
        print_text("engine build", info->engine_build);
    if (info->hmac.data)
        print_hash(file, "HMAC", info->hmac.data, info->hmac.n);
    if (info->has_head_crc)
        print_field("head CRC32C", "%08" PRIx32, info->head_crc32c);
}

static void print_signature(const inspection *file)
{
    static const char *const sentences[] = {
        [SIGNATURE_NONE] = "none",
        [SIGNATURE_UNCHECKED] = "there, not checked; give --signing-key FILE to check it",
        [SIGNATURE_GOOD] = "verifies",
        [SIGNATURE_BAD] = "wrong: made with another key, or the file was changed since",
    };

    print_field("signature", "%s", sentences[file->signature]);
}

static void print_info(const inspection *file)
{
    const hth_kvc_info *info = &file->info;
    char size[32], image[32];

    print_hash(file, starts_at_0(info) ? "key of its tokens" : "key it claims", file->key.bytes, HTH_KEY_BYTES);
    print_field("size", "%s, image %s at byte %" PRIu64 ", CRC32C %08" PRIx32, hth_size_text(file->n_bytes, size),
                hth_size_text(info->image_byte_count, image), info->image_offset, info->image_crc32c);
    print_field("save reason", "%s", hearth_save_reason_name(info->save_reason));
    if (info->save_reason_detail.data)
        print_text("detail", info->save_reason_detail);
    print_time("created", info->creation_time);
    print_time("last used", info->last_used_time);
    print_field("hits", "%" PRIu32, info->hit_count);
    print_hash(file, "fingerprint", info->keyspace.fingerprint, sizeof(info->keyspace.fingerprint));
    print_field("fingerprint mode", "%s", fingerprint_mode_name(info->keyspace.fingerprint_mode));
    print_field("quant type", "%s (%u bits)", hth_quant_name(info->keyspace.quant_byte), info->quant_bits);
    print_hash(file, "ctx params hash", info->keyspace.ctx_params_hash, sizeof(info->keyspace.ctx_params_hash));
    print_field("context size", "%" PRIu32, info->context_size);
    print_field("cached tokens", "%" PRIu32, info->cached_token_count);
    print_tokens(info);
    if (info->prompt.n > 0)
        print_text("prompt", info->prompt);
    if (info->hostname.data)
        print_text("host", info->hostname);
    if (info->writer_version.data)
        print_text("writer", info->writer_version);
    print_own_records(file);
    print_signature(file);
}

static void write_fault(const inspection *file, char *text, size_t capacity)
{
    char digits[HEX_KEY_BYTES];

    hth_hex_encode(file->key.bytes, HTH_KEY_BYTES, digits);
    if (file->fault.reason == HTH_KVC_KEY_MISMATCH && file->key_begin && strlen(file->key_begin) < HEX_KEY_BYTES - 1)
        (void)snprintf(text, capacity, "its key %s does not begin with %s", digits, file->key_begin); /* sized for it */
    else
        hth_kvc_fault_text(&file->fault, text, capacity);
}

static bool print_for_people(const inspection *file)
{
    char text[256];

    if (file->sound) {
        printf("%s: verifies%s\n", file->path,
               starts_at_0(&file->info) ? "" : ", but for its key, which names tokens of earlier rows, too");
    } else {
        write_fault(file, text, sizeof(text));
        printf("%s: does not verify: %s\n", file->path, text);
    }
    if (file->head_sound)
        print_info(file);
    return true;
}

/* ---- hearth kvc inspect ---- */

typedef struct inspect_options {
    bool json;
    const char *key; /* NULL: any */
    const char *signing_key_file;
    bool full_keys;
} inspect_options;

static bool check_key_begin(const char *shown, const char *value, hearth_error *err)
{
    const size_t n = strlen(value);

    return (n >= HTH_CACHE_KEY_DIGITS_MIN && n < HEX_KEY_BYTES && strspn(value, "0123456789abcdef") == n) ||
           hth_value_wrong(shown, value, "the first hex digits of a key, in lower case", err);
}

#define AT(field) offsetof(inspect_options, field)

static const hth_option inspect_rows[] = {
    { "json", 0, HTH_OPTION_FLAG, NULL, "one JSON object a line for each file, numbers over 2^63 as strings",
      .offset = AT(json) },
    { "key", 0, HTH_OPTION_TEXT, "HEX", "the key that every file must have, or its first digits", .offset = AT(key),
      .check = check_key_begin },
    { "full-keys", 0, HTH_OPTION_FLAG, NULL, "show all digits of the keys", .offset = AT(full_keys) },
    { "signing-key", 0, HTH_OPTION_TEXT, "FILE",
      "the key that every file must be signed with: 64 hex digits, or 32 bytes and more, which others may neither read "
      "nor write",
      .offset = AT(signing_key_file) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_manual inspect_manual = {
    .name = "inspect",
    .summary = "show the content of row files and whether they verify",
    .usage = "usage: hearth kvc inspect [--json] [--key HEX] [--signing-key FILE] [--full-keys] FILE...\n"
             "\n"
             "Reads KVC files whole and shows their content and whether they verify.\n"
             "\n",
    .closing = "\nExit codes: 0 all files verify, 1 one does not or cannot be read, 2 wrong usage.\n",
    .options = HTH_OPTION_ROWS(inspect_rows),
    .arguments = HTH_COMPLETE_FILE,
};

static const char *remedy(hth_kvc_reason reason)
{
    switch (reason) {
    case HTH_KVC_UNSUPPORTED_VERSION: return "another version of hearth may read it";
    case HTH_KVC_KEY_MISMATCH: return "give the key of this file, or the file of this key";
    case HTH_KVC_NO_MEMORY: return "close other programs";
    case HTH_KVC_UNSIGNED:
    case HTH_KVC_BAD_SIGNATURE: return "give the key that its writer had, or do not use it";
    case HTH_KVC_BAD_HEADER: return "it is no row file, or not a whole one; rows lie below rows/ in a cache directory";
    default: return "if it lies in a cache directory it may be deleted, and what it held is computed anew";
    }
}

static void report_fault(const inspection *file)
{
    char text[256];

    write_fault(file, text, sizeof(text));
    (void)fprintf(stderr, "hearth: '%s' does not verify: %s; %s\n", file->path, text, remedy(file->fault.reason));
}

/* Inspect one file. False, with a message, if it does not verify or cannot be read. */
static bool inspect(const char *path, const expectation *expected, bool (*print)(const inspection *file))
{
    hearth_error err = { .message = "" };
    inspection file;
    bool sound;

    if (inspection_init(&file, path, expected, &err) != HEARTH_OK)
        return hth_say(err.message, false);
    sound = file.sound;
    if (!print(&file) && !ferror(stdout)) {
        (void)fprintf(stderr, "hearth: no memory to describe '%s'; try it without --json\n", path);
        sound = false;
    }
    (void)fflush(stdout); /* keeps the order of the two streams; failures are reported at the end */
    if (!file.sound)
        report_fault(&file);
    free(file.bytes);
    return sound;
}

static int inspect_files(int n_paths, char **paths, const expectation *expected, bool (*print)(const inspection *file))
{
    bool all_sound = true;

    for (int i = 0; i < n_paths; i++) {
        if (i > 0 && print == print_for_people)
            putchar('\n');
        all_sound = inspect(paths[i], expected, print) && all_sound;
    }
    return hth_output_end(all_sound ? HTH_EXIT_OK : HTH_EXIT_FAILED);
}

static int command_inspect(int argc, char **argv)
{
    inspect_options options = { .json = false };
    int exit_code;
    const int first = hth_manual_parse(&inspect_manual, &hth_kvc_manual, argc, argv, &options, &exit_code);
    hth_signing_key *signing_key = NULL;
    expectation expected = { .key_begin = NULL };
    hearth_error err = { .message = "" };

    if (first < 0)
        return exit_code;
    if (first == argc)
        return hth_say("no file to inspect; see 'hearth kvc inspect --help'", HTH_EXIT_USAGE);
    expected.key_begin = options.key;
    expected.full_keys = options.full_keys;
    if (options.signing_key_file &&
        hth_signing_key_load(NULL, options.signing_key_file, &signing_key, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    expected.signing_key = signing_key;
    exit_code = inspect_files(argc - first, argv + first, &expected, options.json ? print_json : print_for_people);
    hth_signing_key_free(signing_key);
    return exit_code;
}

/* ---- `hearth kvc key`: the key of a list of tokens ---- */

typedef struct key_options {
    const char *fingerprint, *quant, *ctx_params_hash;
} key_options;

static const hth_option rows[] = {
    { "fingerprint", 0, HTH_OPTION_TEXT, "HEX", "the model's effective fingerprint, 64 hex digits",
      .offset = offsetof(key_options, fingerprint), .check = kvc_check_hash },
    { "quant", 0, HTH_OPTION_TEXT, "NAME", "quant type in lower case, such as q4_k_m",
      .offset = offsetof(key_options, quant) },
    { "ctx-params-hash", 0, HTH_OPTION_TEXT, "HEX", "hash of the context's parameters, 64 hex digits",
      .offset = offsetof(key_options, ctx_params_hash), .check = kvc_check_hash },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_manual key_manual = {
    .name = "key",
    .summary = "compute the key of a list of tokens",
    .usage = "usage: hearth kvc key --fingerprint HEX --quant NAME --ctx-params-hash HEX [TOKEN... | -]\n"
             "\n"
             "Prints the key that names a prefix: "
             "SHA-256 over fingerprint, quant type, hash of the context's parameters and\n"
             "the tokens, which are numbers from 0 to 4294967295. "
             "No tokens name the empty prefix. '-' reads the tokens from\n"
             "standard input, separated by spaces, lines or commas.\n"
             "\n",
    .closing = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n",
    .options = HTH_OPTION_ROWS(rows),
    .arguments = HTH_COMPLETE_NOTHING,
};

/* Tokens so far. */
typedef struct token_list {
    hearth_token *tokens;
    size_t n;
    size_t capacity;
} token_list;

/* Add the token of a word. Returns the exit code. */
static int add_word(token_list *list, const char *word)
{
    unsigned long long value = 0;
    hearth_token *tokens;
    char *end = NULL;

    errno = 0;
    if (word[0] >= '0' && word[0] <= '9')
        value = strtoull(word, &end, 10);
    if (!end || *end || errno || value > UINT32_MAX)
        return hth_sayf(HTH_EXIT_USAGE,
                        "'%s' is no token, which is a number from 0 to %" PRIu32 "; see 'hearth kvc key --help'", word,
                        UINT32_MAX);
    tokens = hth_grown(list->tokens, list->n, &list->capacity, sizeof(*tokens));
    if (!tokens)
        return hth_sayf(HTH_EXIT_FAILED, "no memory for more than %zu tokens; give fewer", list->n);
    list->tokens = tokens;
    list->tokens[list->n++] = (hearth_token)value;
    return HTH_EXIT_OK;
}

static bool separates_tokens(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

/* Add the tokens of standard input. Returns the exit code. */
static int add_input(token_list *list)
{
    char word[32]; /* a longer word is truncated and ends with a character that is not in a number */
    size_t n_word = 0;
    int c;

    do {
        c = getchar();
        if (c != EOF && !separates_tokens(c)) {
            if (n_word < sizeof(word) - 1)
                word[n_word++] = c == '\0' ? '?' : (char)c;
            else
                word[n_word - 1] = '?';
        } else if (n_word > 0) {
            int exit_code;

            word[n_word] = '\0';
            n_word = 0;
            exit_code = add_word(list, word);
            if (exit_code != HTH_EXIT_OK)
                return exit_code;
        }
    } while (c != EOF);
    if (ferror(stdin))
        return hth_sayf(HTH_EXIT_FAILED, "cannot read the tokens: %s; check where standard input comes from",
                        strerror(errno));
    return HTH_EXIT_OK;
}

static int print_key(const hth_keyspace *keyspace, int n_words, char **words)
{
    token_list list = { .tokens = NULL };
    int exit_code = HTH_EXIT_OK;
    char hex[2 * HTH_KEY_BYTES + 1];
    hth_key key;

    if (n_words == 1 && strcmp(words[0], "-") == 0)
        exit_code = add_input(&list);
    else
        for (int i = 0; i < n_words && exit_code == HTH_EXIT_OK; i++)
            exit_code = add_word(&list, words[i]);
    if (exit_code == HTH_EXIT_OK) {
        if (hth_key_of(keyspace, list.tokens, list.n, &key)) {
            hth_hex_encode(key.bytes, HTH_KEY_BYTES, hex);
            puts(hex);
        } else {
            exit_code = hth_say("no memory to compute a key; close other programs", HTH_EXIT_FAILED);
        }
    }
    free(list.tokens);
    return hth_output_end(exit_code);
}

static int command_key(int argc, char **argv)
{
    hth_keyspace keyspace = { .quant_byte = 0 };
    key_options options = { .quant = NULL };
    int exit_code;
    const int first = hth_manual_parse(&key_manual, &hth_kvc_manual, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    if (!options.quant || !options.fingerprint || !options.ctx_params_hash ||
        !hth_hex_decode(options.fingerprint, keyspace.fingerprint, sizeof(keyspace.fingerprint)) ||
        !hth_hex_decode(options.ctx_params_hash, keyspace.ctx_params_hash, sizeof(keyspace.ctx_params_hash)))
        return hth_say("a key needs --fingerprint, --quant and --ctx-params-hash; see 'hearth kvc key --help'",
                       HTH_EXIT_USAGE);
    keyspace.quant_byte = hth_quant_byte(options.quant);
    if (!hth_quant_name(keyspace.quant_byte))
        (void)fprintf(stderr, "hearth: quant type '%s' is not known; its key is that of every unknown type\n",
                      options.quant);
    return print_key(&keyspace, argc - first, argv + first);
}

/* ---- hearth kvc ---- */

static const hth_manual *const verbs[] = { &inspect_manual, &key_manual, NULL };

const hth_manual hth_kvc_manual = {
    .name = "kvc",
    .summary = "inspect row files; compute keys",
    .usage = "Works on single files of rows, and needs no cache.\n\n",
    .closing = "'hearth help kvc VERB' explains each.\n",
    .verbs = verbs,
};

int hth_command_kvc(int argc, char **argv)
{
    int exit_code;
    const hth_manual *verb = hth_verb_read(&hth_kvc_manual, argc, argv, &exit_code);

    if (!verb)
        return exit_code;
    return verb == &inspect_manual ? command_inspect(argc - 1, argv + 1) : command_key(argc - 1, argv + 1);
}

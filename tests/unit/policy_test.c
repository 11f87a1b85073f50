/*
 * policy_test.c - how far a prefix is saved, against the reference vectors
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "cache/policy.h"
#include "support/kvc_vectors.h"

/* ---- reading the vectors ---- */

/* In the order of the table in the vectors' description, which is that of the struct. */
static const char *const policy_keys[] = { "min_tokens",         "cold_min_tokens",      "cold_max_tokens",
                                           "continued_interval", "boundary_trim_tokens", "boundary_align_tokens" };

enum { N_POLICY_KEYS = sizeof(policy_keys) / sizeof(policy_keys[0]) };

static int64_t integer_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static bool fn_is(const json_t *line, const char *name)
{
    return strcmp(json_string_value(json_object_get(line, "fn")), name) == 0;
}

static bool out_is(const json_t *line, const char *word)
{
    const char *out = json_string_value(json_object_get(line, "out"));

    return out && strcmp(out, word) == 0;
}

/* Is every key there and an integer, so that the struct can hold the configuration? */
static bool fits_struct(const json_t *config)
{
    for (size_t i = 0; i < N_POLICY_KEYS; i++)
        if (!json_is_integer(json_object_get(config, policy_keys[i])))
            return false;
    return true;
}

static hth_policy policy_of(const json_t *config)
{
    return (hth_policy){
        .min_tokens = integer_of(config, "min_tokens"),
        .cold_min_tokens = integer_of(config, "cold_min_tokens"),
        .cold_max_tokens = integer_of(config, "cold_max_tokens"),
        .continued_interval = integer_of(config, "continued_interval"),
        .boundary_trim_tokens = integer_of(config, "boundary_trim_tokens"),
        .boundary_align_tokens = integer_of(config, "boundary_align_tokens"),
        .snapshot_interval = 1024, /* ours alone */
    };
}

/* Call check with every line about one function; returns how many there were. */
static size_t for_each_call(const char *directory, const char *fn, void (*check)(const json_t *line))
{
    char path[1024];
    FILE *file;
    json_error_t error;
    json_t *line;
    size_t n = 0;

    assert_true((size_t)snprintf(path, sizeof(path), "%s/policy.jsonl", directory) < sizeof(path));
    file = fopen(path, "r");
    assert_non_null(file);
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error))) {
        if (fn_is(line, fn)) {
            check(line);
            n++;
        }
        json_decref(line);
    }
    assert_int_equal(json_error_code(&error), json_error_premature_end_of_input); /* the end, not a broken line */
    assert_true(feof(file));
    fclose(file);
    return n;
}

/* ---- calls that break the contract ---- */

static void call_trim_boundary(const json_t *line)
{
    (void)hth_policy_trim_boundary(integer_of(line, "len"), integer_of(line, "trim"), integer_of(line, "align"));
}

static void call_cold_save(const json_t *line)
{
    hth_policy policy = policy_of(json_object_get(line, "config"));

    (void)hth_policy_cold_save(integer_of(line, "len"), &policy);
}

/* The call ends in a failed assertion: tried in a child, whose abort and message stay there. */
static void assert_contract_is_held(void (*call)(const json_t *line), const json_t *line)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = { 0, 0 };

        (void)setrlimit(RLIMIT_CORE, &no_core); /* a core file would only be in the way */
        (void)signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        call(line);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* ---- the functions of the vectors ---- */

static void check_trim_boundary(const json_t *line)
{
    int64_t expected = out_is(line, "ok") ? integer_of(line, "prefix_len") : 0;

    if (out_is(line, "raises")) {
        assert_contract_is_held(call_trim_boundary, line);
        return;
    }
    assert_true(out_is(line, "ok") || out_is(line, "skip"));
    assert_int_equal(
        hth_policy_trim_boundary(integer_of(line, "len"), integer_of(line, "trim"), integer_of(line, "align")),
        expected);
}

VECTOR_TEST(a_boundary_is_trimmed_and_aligned_like_the_references)
{
    assert_in_range(for_each_call(folder, "trim_boundary", check_trim_boundary), 1, SIZE_MAX);
}

static void check_cold_save(const json_t *line)
{
    int64_t expected = 0;
    hth_policy policy = policy_of(json_object_get(line, "config"));

    if (out_is(line, "raises")) {
        assert_contract_is_held(call_cold_save, line);
        return;
    }
    assert_true(out_is(line, "trim") || out_is(line, "no_save"));
    if (out_is(line, "trim")) {
        expected = integer_of(line, "prefix_len");
        assert_int_equal(integer_of(line, "len") - expected, integer_of(line, "rest_len"));
    }
    assert_int_equal(hth_policy_cold_save(integer_of(line, "len"), &policy), expected);
}

VECTOR_TEST(a_cold_prompt_is_saved_as_far_as_the_references)
{
    assert_in_range(for_each_call(folder, "cold_save_split", check_cold_save), 1, SIZE_MAX);
}

static void check_continued(const json_t *line)
{
    hth_policy policy = policy_of(json_object_get(line, "config"));

    assert_true(json_is_boolean(json_object_get(line, "out")));
    assert_int_equal(
        hth_policy_should_save_continued(integer_of(line, "live"), integer_of(line, "last_saved"), &policy),
        json_is_true(json_object_get(line, "out")));
}

VECTOR_TEST(a_growing_sequence_is_saved_when_the_references_is)
{
    assert_in_range(for_each_call(folder, "should_continued_save", check_continued), 1, SIZE_MAX);
}

static void check_finish(const json_t *line)
{
    hth_policy policy = policy_of(json_object_get(line, "config"));

    assert_true(json_is_boolean(json_object_get(line, "out")));
    assert_int_equal(hth_policy_should_save_finish(integer_of(line, "live"), &policy),
                     json_is_true(json_object_get(line, "out")));
}

VECTOR_TEST(a_finished_sequence_is_saved_when_the_references_is)
{
    assert_in_range(for_each_call(folder, "should_finish_save", check_finish), 1, SIZE_MAX);
}

/* Lines that no struct of integers can hold, counted over one pass. */
static size_t n_beyond_struct;

/* The key that the reference names: directly, or as the first word of an ordering error. */
static void assert_names_the_key(const char *message, const json_t *line)
{
    const char *key = json_string_value(json_object_get(line, "key"));
    const char *which = json_string_value(json_object_get(line, "which"));

    for (size_t i = 0; !key && i < N_POLICY_KEYS; i++)
        if (which && strncmp(which, policy_keys[i], strlen(policy_keys[i])) == 0)
            key = policy_keys[i];
    assert_non_null(key);
    assert_memory_equal(message, key, strlen(key));
    assert_int_equal(message[strlen(key)], ' ');
}

static void check_validate(const json_t *line)
{
    const json_t *config = json_object_get(line, "config");
    hearth_error err = { .message = "" };
    hth_policy policy;

    if (!fits_struct(config)) {
        assert_true(out_is(line, "error")); /* nothing that the reference accepts is left out */
        n_beyond_struct++;
        return;
    }
    policy = policy_of(config);
    if (out_is(line, "ok")) {
        assert_int_equal(hth_policy_validate(&policy, NULL), HEARTH_OK);
        return;
    }
    assert_int_equal(hth_policy_validate(&policy, &err), HEARTH_MISUSE);
    assert_int_equal(err.status, HEARTH_MISUSE);
    assert_names_the_key(err.message, line);
}

VECTOR_TEST(a_configuration_is_refused_for_the_same_key_as_the_references)
{
    size_t n;

    n_beyond_struct = 0;
    n = for_each_call(folder, "validate_config", check_validate);
    print_message("%zu of %zu configurations skipped: a key is missing or no integer, which the struct cannot hold\n",
                  n_beyond_struct, n);
    assert_true(n > n_beyond_struct);
}

/* ---- ours ---- */

TEST(our_defaults_are_valid_for_every_context_size)
{
    static const uint32_t sizes[] = { 0, 1, 7, 8, 9, 256, 8192, 131072, UINT32_MAX };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        hth_policy policy = hth_policy_default(sizes[i]);

        assert_int_equal(hth_policy_validate(&policy, NULL), HEARTH_OK);
    }
}

TEST(our_defaults_save_every_full_block_of_any_prompt_that_fits)
{
    hth_policy policy = hth_policy_default(8192);

    assert_int_equal(hth_policy_cold_save(255, &policy), 0);
    assert_int_equal(hth_policy_cold_save(256, &policy), 256);
    assert_int_equal(hth_policy_cold_save(1023, &policy), 768);
    assert_int_equal(hth_policy_cold_save(8192, &policy), 8192);
    assert_int_equal(hth_policy_cold_save(8193, &policy), 0);
    assert_false(hth_policy_should_save_finish(7, &policy));
    assert_true(hth_policy_should_save_finish(8, &policy));
    assert_false(hth_policy_should_save_continued(511, 256, &policy));
    assert_true(hth_policy_should_save_continued(512, 256, &policy));
}

TEST(counts_at_the_ends_of_their_type_do_not_wrap)
{
    hth_policy policy = hth_policy_default(8192);

    assert_int_equal(hth_policy_trim_boundary(INT64_MIN, 1, 256), 0);
    assert_int_equal(hth_policy_trim_boundary(INT64_MAX, 0, 1), INT64_MAX);
    assert_int_equal(hth_policy_trim_boundary(INT64_MAX, INT64_MAX, 1), 0);
    assert_true(hth_policy_should_save_continued(INT64_MAX, INT64_MIN, &policy));
    assert_false(hth_policy_should_save_continued(INT64_MIN, INT64_MAX, &policy));
    policy.min_tokens = INT64_MIN; /* nothing valid, and no overflow either */
    assert_false(hth_policy_should_save_continued(INT64_MIN, INT64_MAX, &policy));
}

TEST(a_state_is_saved_every_interval_of_whole_blocks)
{
    hth_policy policy = hth_policy_default(8192);
    hearth_error err;

    assert_false(hth_policy_should_save_state(0, &policy));
    assert_false(hth_policy_should_save_state(768, &policy));
    assert_true(hth_policy_should_save_state(1024, &policy));
    assert_false(hth_policy_should_save_state(1280, &policy));
    policy.snapshot_interval = 256;
    assert_true(hth_policy_should_save_state(1280, &policy));
    policy.min_tokens = policy.cold_min_tokens = 1281;
    assert_false(hth_policy_should_save_state(1280, &policy));

    for (int64_t interval = -256; interval < 256; interval += 64) {
        policy.snapshot_interval = interval;
        assert_int_equal(hth_policy_validate(&policy, &err), HEARTH_MISUSE);
        assert_memory_equal(err.message, "snapshot_interval ", 18);
    }
    policy.snapshot_interval = 300;
    assert_int_equal(hth_policy_validate(&policy, &err), HEARTH_MISUSE);
    policy.snapshot_interval = 512;
    assert_int_equal(hth_policy_validate(&policy, &err), HEARTH_OK);
}

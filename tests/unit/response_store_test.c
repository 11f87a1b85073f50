/*
 * response_store_test.c - responses are found by who asked for them, until they are removed, too old, or too many
 */
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fs.h"
#include "base/hex.h"
#include "dialects/response_record.h"
#include "front/response_store.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static const uint8_t ann[HTH_RESPONSE_OWNER_BYTES] = { 1 }, bob[HTH_RESPONSE_OWNER_BYTES] = { 2 };
static const hth_log quiet = { .level = HEARTH_LOG_ERROR };

typedef struct stage {
    struct event_base *base;
    char *directory; /* NULL: memory */
    hth_response_store *store;
} stage;

static void open_store(stage *s, uint64_t bytes_max)
{
    const hth_response_store_options options = {
        .base = s->base,
        .limits = { .directory = s->directory, .bytes_max = bytes_max, .days_max = 30 },
        .log = &quiet,
    };
    hearth_error err;

    assert_ok(hth_response_store_new(&options, &s->store, &err), err);
}

static stage begin(bool has_directory)
{
    stage s = { .base = event_base_new() };

    assert_non_null(s.base);
    if (has_directory)
        s.directory = hth_test_directory_new();
    open_store(&s, 1 << 20);
    return s;
}

static void end(stage *s)
{
    hth_response_store_free(s->store);
    event_base_free(s->base);
    if (s->directory)
        hth_test_directory_remove(s->directory);
}

static void put(const stage *s, const uint8_t *owner, const char *id, const char *text)
{
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    hth_response_key(owner, id, strlen(id), key);
    hth_response_store_put(s->store, key, text, strlen(text));
}

static void remove_response(const stage *s, const uint8_t *owner, const char *id)
{
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    hth_response_key(owner, id, strlen(id), key);
    hth_response_store_remove(s->store, key);
}

typedef struct answer {
    bool is_there;
    bool is_answered;
    char text[256];
} answer;

static void on_found(const void *bytes, size_t n, void *user_data)
{
    answer *a = user_data;

    assert_false(a->is_answered);
    a->is_answered = true;
    a->is_there = bytes != NULL;
    assert_true(n < sizeof(a->text));
    if (bytes)
        memcpy(a->text, bytes, n);
    a->text[n] = '\0';
}

/* The text that is found; "-" for none. */
static const char *found(const stage *s, const uint8_t *owner, const char *id)
{
    static answer a;
    hth_response_lookup lookup = { .on_found = on_found, .user_data = &a };
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    a = (answer){ .is_answered = false };
    hth_response_key(owner, id, strlen(id), key);
    hth_response_store_find(s->store, key, &lookup);
    while (!a.is_answered)
        assert_int_equal(event_base_loop(s->base, EVLOOP_ONCE), 0);
    return a.is_there ? a.text : "-";
}

TEST(who_asked_for_a_response_finds_it_and_nobody_else)
{
    for (int i = 0; i < 2; i++) {
        stage s = begin(i == 1);

        put(&s, ann, "resp_1", "first");
        put(&s, ann, "resp_2", "second");
        assert_string_equal(found(&s, ann, "resp_1"), "first");
        assert_string_equal(found(&s, ann, "resp_2"), "second");
        assert_string_equal(found(&s, bob, "resp_1"), "-");
        assert_string_equal(found(&s, ann, "resp_3"), "-");
        put(&s, ann, "resp_1", "anew");
        assert_string_equal(found(&s, ann, "resp_1"), "anew");
        remove_response(&s, bob, "resp_1");
        assert_string_equal(found(&s, ann, "resp_1"), "anew");
        remove_response(&s, ann, "resp_1");
        assert_string_equal(found(&s, ann, "resp_1"), "-");
        assert_string_equal(found(&s, ann, "resp_2"), "second");
        end(&s);
    }
}

TEST(the_oldest_go_where_room_is_needed)
{
    for (int i = 0; i < 2; i++) {
        stage s = begin(i == 1);
        uint64_t bytes;

        hth_response_store_free(s.store);
        open_store(&s, 10);
        put(&s, ann, "a", "1234");
        put(&s, ann, "b", "5678");
        put(&s, ann, "c", "90");
        assert_int_equal(hth_response_store_n(s.store, &bytes), 3);
        put(&s, ann, "d", "x");
        assert_int_equal(hth_response_store_n(s.store, &bytes), 3);
        assert_int_equal(bytes, 7);
        assert_string_equal(found(&s, ann, "a"), "-");
        assert_string_equal(found(&s, ann, "b"), "5678");
        put(&s, ann, "e", "longer than all");
        assert_string_equal(found(&s, ann, "e"), "-");
        assert_string_equal(found(&s, ann, "b"), "5678");
        end(&s);
    }
}

TEST(who_stores_much_drives_out_its_own_responses)
{
    for (int i = 0; i < 2; i++) {
        stage s = begin(i == 1);
        uint64_t bytes;

        hth_response_store_free(s.store);
        open_store(&s, 10);
        put(&s, bob, "b", "1234");
        for (char id[] = "a"; id[0] < 'h'; id[0]++)
            put(&s, ann, id, "56");
        assert_string_equal(found(&s, bob, "b"), "1234"); /* the oldest, but ann holds more */
        assert_string_equal(found(&s, ann, "d"), "-");
        assert_string_equal(found(&s, ann, "e"), "56");
        if (i == 1) { /* whose they are is known from the files, too */
            hth_response_store_free(s.store);
            open_store(&s, 10);
            put(&s, ann, "h", "78");
            assert_string_equal(found(&s, bob, "b"), "1234");
            assert_string_equal(found(&s, ann, "h"), "78");
        }
        put(&s, bob, "c", "123456"); /* now bob holds the most */
        assert_string_equal(found(&s, bob, "b"), "-");
        assert_int_equal(hth_response_store_n(s.store, &bytes), 3);
        assert_int_equal(bytes, 10);
        end(&s);
    }
}

TEST(a_store_that_keeps_nothing_finds_nothing)
{
    stage s = begin(false);

    hth_response_store_free(s.store);
    open_store(&s, 0);
    put(&s, ann, "a", "1");
    assert_string_equal(found(&s, ann, "a"), "-");
    end(&s);
}

TEST(what_is_in_files_is_found_after_a_restart)
{
    stage s = begin(true);
    uint64_t bytes;

    put(&s, ann, "a", "1234");
    put(&s, ann, "b", "5678");
    hth_response_store_free(s.store);
    open_store(&s, 1 << 20);
    assert_int_equal(hth_response_store_n(s.store, &bytes), 2);
    assert_int_equal(bytes, 8);
    assert_string_equal(found(&s, ann, "a"), "1234");
    hth_response_store_free(s.store);
    open_store(&s, 4); /* less than before */
    assert_int_equal(hth_response_store_n(s.store, &bytes), 1);
    end(&s);
}

static void path_of(const stage *s, const char *id, char path[512])
{
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    char name[2 * HTH_SHA256_BYTES + 1];

    hth_response_key(ann, id, strlen(id), key);
    hth_hex_encode(key, HTH_SHA256_BYTES, name);
    (void)snprintf(path, 512, "%s/%s.hrr", s->directory, name);
}

/* Write bytes at an offset of a response's file. */
static void change(const stage *s, const char *id, off_t offset, const void *bytes, size_t n)
{
    char path[512];
    int fd;

    path_of(s, id, path);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, offset), n);
    close(fd);
}

TEST(a_damaged_or_old_file_is_none)
{
    stage s = begin(true);
    uint8_t long_ago[8];
    char path[512];
    struct stat about;

    put(&s, ann, "damaged", "1234");
    put(&s, ann, "old", "1234");
    put(&s, ann, "cut", "1234");
    put(&s, ann, "good", "1234");
    assert_string_equal(found(&s, ann, "good"), "1234"); /* and so all are written */
    path_of(&s, "good", path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    change(&s, "damaged", 25, "x", 1);
    hth_put_u64(long_ago, 1000000000);
    change(&s, "old", 8, long_ago, sizeof(long_ago));
    path_of(&s, "cut", path);
    assert_int_equal(truncate(path, 26), 0);
    assert_string_equal(found(&s, ann, "damaged"), "-");
    assert_string_equal(found(&s, ann, "old"), "-");
    assert_string_equal(found(&s, ann, "cut"), "-");
    assert_string_equal(found(&s, ann, "good"), "1234");
    end(&s);
}

TEST(who_gives_up_is_not_told)
{
    stage s = begin(true);
    answer a = { .is_answered = false };
    hth_response_lookup lookup = { .on_found = on_found, .user_data = &a };
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    put(&s, ann, "a", "1234");
    hth_response_key(ann, "a", 1, key);
    hth_response_store_find(s.store, key, &lookup);
    hth_response_lookup_cancel(&lookup);
    assert_string_equal(found(&s, ann, "a"), "1234"); /* which comes behind it */
    assert_false(a.is_answered);
    end(&s);
}

TEST(a_directory_that_cannot_be_used_is_told)
{
    hth_response_store_options options = { .limits = { .bytes_max = 1, .days_max = 1 }, .log = &quiet };
    hth_response_store *store;
    hearth_error err;

    options.base = event_base_new();
    options.limits.directory = "/nowhere/at/all";
    assert_int_equal(hth_response_store_new(&options, &store, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    event_base_free(options.base);
}

/* ---- records ---- */

TEST(a_record_is_read_as_it_was_written_and_changed_bytes_are_none)
{
    json_t *items = json_pack("[{s:s,s:i},{s:s}]", "id", "item_0", "a", 1, "id", "msg_1"),
           *response = json_pack("{s:s}", "id", "r");
    hth_buffer out = { .text = NULL };
    hth_response_record record;
    hth_response_item list[2];
    uint64_t seed = hth_test_seed();

    hth_response_record_add(&out, "resp_1", response, items);
    hth_response_record_add(&out, "resp_2", response, NULL);
    assert_true(hth_response_record_read(out.text, out.n, &record));
    assert_int_equal(record.n_items, 2);
    assert_memory_equal(record.id, "resp_1", record.n_id);
    assert_memory_equal(record.response, "{\"id\":\"r\"}", record.n_response);
    hth_response_record_items(&record, list);
    assert_memory_equal(list[1].id, "msg_1", list[1].n_id);
    assert_memory_equal(list[0].text, "{\"id\":\"item_0\",\"a\":1}", list[0].n_text);
    assert_true(hth_response_record_read(out.text + record.n_bytes, out.n - record.n_bytes, &record));
    assert_int_equal(record.n_items, 0);
    assert_memory_equal(record.id, "resp_2", record.n_id);
    for (int i = 0; i < 20000; i++) {
        size_t n = hth_test_random(&seed, out.n) + 1;
        char *copy = malloc(n);

        memcpy(copy, out.text, n);
        copy[hth_test_random(&seed, n < 60 ? n : 60)] ^= (char)(1 + hth_test_random(&seed, 255));
        if (hth_response_record_read(copy, n, &record)) { /* never beyond its end */
            hth_response_item *all = calloc(record.n_items + 1, sizeof(*all));

            hth_response_record_items(&record, all);
            for (size_t k = 0; k < record.n_items; k++)
                assert_true(all[k].text + all[k].n_text <= copy + n);
            free(all);
        }
        free(copy);
    }
    hth_buffer_deinit(&out);
    json_decref(items);
    json_decref(response);
}

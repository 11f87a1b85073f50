/*
 * changing_text_test.c - what of a text is different each time is known by its form
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/changing_text.h"
#include "support/cmocka_all.h"

/* In each text one byte is asked about, behind the mark '^', which is taken out. */
static void check(const char *marked, const char *kind, const char *found)
{
    const char *mark = strchr(marked, '^');
    hth_changing_text out = { .kind = NULL };
    size_t at = (size_t)(mark - marked), n;
    char text[256];

    assert_non_null(mark);
    n = (size_t)snprintf(text, sizeof(text), "%.*s%s", (int)at, marked, mark + 1);
    if (!hth_changing_text_at(text, n, at, &out)) {
        if (kind)
            fail_msg("nothing in '%s'; it has %s", marked, kind);
        return;
    }
    if (!kind || strcmp(out.kind, kind) != 0)
        fail_msg("%s in '%s'; it has %s", out.kind, marked, kind ? kind : "nothing");
    assert_int_equal(out.end - out.begin, strlen(found));
    assert_memory_equal(text + out.begin, found, strlen(found));
}

TEST(dates_are_known)
{
    check("Today is ^2026-11-22.", "a date", "2026-11-22");
    check("Today is 2026-11-2^2.", "a date", "2026-11-22");
    check("at 2026-11-^22T10:11:12Z", "a date", "2026-11-22");
    check("on 11/2^2/2026, ", "a date", "11/22/2026");
    check("am ^1.12.2026", "a date", "1.12.2026");
    check("It is Sunday, 2^2 November 2026 here", "a date", "Sunday, 22 November 2026");
    check("It is Nov ^22, 2026.", "a date", "Nov 22, 2026");
    check("It is ^Sunday today", "a date", "Sunday");
}

TEST(other_kinds_are_known)
{
    check("at 2026-11-22T10:1^1:12Z", "a time", "10:11:12");
    check("at 9:0^5 or so", "a time", "9:05");
    check("session b254f965-b3ca-4fb3-9669-^36082e3ecce0 of", "a UUID", "b254f965-b3ca-4fb3-9669-36082e3ecce0");
    check("cwd: /tmp/run-1^7/x\n", "a temporary path", "/tmp/run-17/x");
    check("cwd: /home/m^e/work\n", "a path", "/home/me/work");
    check("cwd: ~/wo^rk/a\n", "a path", "~/work/a");
    check("commit 1af^1b23 (HEAD)", "a hexadecimal digest", "1af1b23");
    check("cc_version=2.1.197.1^23; cc", "a version", "2.1.197.123");
    check("cc_version=2.1.197.2^b1; cc", "a version", "2.1.197.2b1");
    check("v2.^1 is", "a version", "2.1");
    check("there are ^17 files", "a number", "17");
}

TEST(other_text_is_none)
{
    check("You ^may go", NULL, "");
    check("an ordin^ary word", NULL, "");
    check("a defaced^ facade", NULL, "");
    check("feedbac^k", NULL, "");
    check("either/^or", NULL, "");
    check("the end^.", NULL, "");
    check("\xc3\xa4^\xc3\xb6", NULL, "");
}

TEST(any_place_of_any_bytes_is_safe)
{
    enum { BYTES = 2000 };
    static const char letters[] = "0123456789abcdefABCDEF-/:.T ,NovMay\n\xff";
    char *text = malloc(BYTES); /* to the byte, for sanitizers */
    unsigned random = 1;

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < BYTES; i++) {
            random = random * 1103515245u + 12345u;
            text[i] = letters[(random >> 16) % sizeof(letters)];
        }
        for (size_t at = 0; at <= BYTES; at++) {
            hth_changing_text out;

            if (!hth_changing_text_at(text, BYTES, at, &out))
                continue;
            assert_true(out.begin <= at && at < out.end && out.end <= BYTES);
        }
    }
    free(text);
}

/* kept.c - what lives as long as a test, see cmocka_all.h */
#include <pthread.h>
#include <stdlib.h>

#include "support/cmocka_all.h"

typedef struct kept_object {
    struct kept_object *older;
    void *object;
    void (*release)(void *object);
} kept_object;

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static kept_object *newest_kept; /* guarded by kept_lock */

void *hth_test_keep(void *object, void (*release)(void *object))
{
    kept_object *kept = malloc(sizeof(*kept));

    if (!kept)
        abort();
    pthread_mutex_lock(&kept_lock);
    *kept = (kept_object){ .older = newest_kept, .object = object, .release = release };
    newest_kept = kept;
    pthread_mutex_unlock(&kept_lock);
    return object;
}

void hth_test_release_kept(void)
{
    while (newest_kept) {
        kept_object *kept = newest_kept;

        newest_kept = kept->older;
        kept->release(kept->object);
        free(kept);
    }
}

void *hth_test_fixture_new(size_t n_bytes)
{
    void *fixture = calloc(1, n_bytes);

    assert_non_null(fixture);
    return fixture;
}

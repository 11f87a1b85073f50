/*
 * journal_fuzz.c - any bytes as a journal of a reply: its first piece, and the others
 *
 * What must hold: nothing outside the bytes is read (a sanitizer sees it); a request that was read and is written again
 * reads the same; what is known is frames that a worker takes.
 */
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/request.h"
#include "front/journal_pieces.h"
#include "worker/worker_known.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void read_request(const uint8_t *bytes, size_t n_bytes)
{
    hth_journaled one, two;
    hth_buffer text = { .text = NULL };

    if (!hth_journaled_read(bytes, n_bytes, &one))
        return;
    hth_journaled_write(&one, &text);
    require(!text.failed && hth_journaled_read(text.text, text.n, &two));
    require(strcmp(one.model, two.model) == 0 && strcmp(one.id, two.id) == 0 && strcmp(one.salt, two.salt) == 0);
    require(one.seed == two.seed && one.created_s == two.created_s && one.status == two.status);
    require(one.n_body == two.n_body && memcmp(one.body, two.body, one.n_body) == 0);
    require(one.n_past == two.n_past && one.n_begun == two.n_begun);
    hth_journaled_deinit(&one);
    hth_journaled_deinit(&two);
    hth_buffer_deinit(&text);
}

static void read_rest(const uint8_t *bytes, size_t n_bytes)
{
    hth_journal_rest rest;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_known known;

    if (!hth_journal_rest_read(bytes, n_bytes, &rest))
        return;
    if (hth_known_read(hth_buffer_text(&rest.known), rest.known.n, 0, HTH_API_REPLIES_MAX, &known, &error))
        hth_known_deinit(&known);
    hth_journal_rest_deinit(&rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    read_request(bytes, n_bytes);
    read_rest(bytes, n_bytes);
    return 0;
}

/*
 * response_record.h - a response as it is kept: what was answered, and the items that it was an answer to
 *
 * Made by a worker, kept by the front, and given to a worker again with a request that goes on from it. The front reads
 * nothing of it but lengths: it gives the response to who asks for it, and lists items by putting their texts together.
 *
 *    0  u8[4]  "HRR1"
 *    4  u32    bytes of all of it, little-endian like those below
 *    8  u32    n_items
 *   12  u32    bytes of the response's id
 *   16  u32    bytes of the response
 *   20         of each item: u32 bytes of its id, u32 bytes of its text
 *              the id, the response (JSON), of each item its id and its text (JSON), none of them terminated
 */
#ifndef HTH_API_RESPONSE_RECORD_H
#define HTH_API_RESPONSE_RECORD_H

#include "api/buffer.h"

enum { HTH_RESPONSE_RECORD_BYTES_MAX = 16 << 20 }; /* longer ones are not kept */

typedef struct hth_response_record {
    const char *id; /* [n_id] */
    size_t n_id;
    const char *response; /* [n_response] */
    size_t n_response;
    size_t n_items;
    const char *lengths; /* the table, and where the items begin */
    const char *items;
    size_t n_bytes; /* of all of it */
} hth_response_record;

typedef struct hth_response_item {
    const char *id; /* [n_id] */
    size_t n_id;
    const char *text; /* [n_text] */
    size_t n_text;
} hth_response_item;

/* Append a record; items is an array of objects, each with an "id". Nothing is appended where it would be too long. */
void hth_response_record_add(hth_buffer *out, const char *id, const json_t *response, const json_t *items);

/*
 * Append the record of a response that was in progress as one that ended so: why is its error, NULL for none. False, with
 * nothing appended, where it is none of these. Nothing but a response's first members is looked at.
 */
bool hth_response_record_add_ended(hth_buffer *out, const hth_response_record *record, const char *status,
                                   const char *why);

/* Read the record that begins at bytes, [n]; false where that is none. Its pointers are into bytes. Pure. */
bool hth_response_record_read(const void *bytes, size_t n, hth_response_record *out);
/* All items in order into out, [record->n_items]. */
void hth_response_record_items(const hth_response_record *record, hth_response_item *out);

#endif

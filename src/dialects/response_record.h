/*
 * response_record.h - the stored form of a response: the response and its input items
 *
 * A worker makes the record, the front stores it, and a worker receives it again with a request that continues the
 * response. The front reads only the lengths in it: it returns the response to clients that ask for it, and lists items
 * by joining their texts.
 *
 *    0  u8[4]  "HRR1"
 *    4  u32    bytes of the record, little-endian like all numbers below
 *    8  u32    n_items
 *   12  u32    bytes of the response's id
 *   16  u32    bytes of the response
 *   20         for each item: u32 bytes of its id, u32 bytes of its text
 *              the id; the response (JSON); for each item its id and its text (JSON). None is terminated.
 */
#ifndef HTH_DIALECTS_RESPONSE_RECORD_H
#define HTH_DIALECTS_RESPONSE_RECORD_H

#include "api/buffer.h"

enum { HTH_RESPONSE_RECORD_BYTES_MAX = 16 << 20 }; /* longer records are not stored */

typedef struct hth_response_record {
    const char *id; /* [n_id] */
    size_t n_id;
    const char *response; /* [n_response] */
    size_t n_response;
    size_t n_items;
    const char *lengths; /* the table of lengths; the items begin at items */
    const char *items;
    size_t n_bytes; /* of the record */
} hth_response_record;

typedef struct hth_response_item {
    const char *id; /* [n_id] */
    size_t n_id;
    const char *text; /* [n_text] */
    size_t n_text;
} hth_response_item;

/* Append a record. items is an array of objects, each with an "id". Appends nothing if the record would be too long. */
void hth_response_record_add(hth_buffer *out, const char *id, const json_t *response, const json_t *items);

/*
 * Append the record of a response that was in progress, now ended with status, and with why as its error (NULL: no
 * error). Reads only the first members of the response. False, with nothing appended, if they have another form.
 */
bool hth_response_record_add_ended(hth_buffer *out, const hth_response_record *record, const char *status,
                                   const char *why);

/* Read the record that begins at bytes, [n]. Its pointers point into bytes. False if it is not a record. Pure. */
bool hth_response_record_read(const void *bytes, size_t n, hth_response_record *out);
/* Write all items in order to out, [record->n_items]. */
void hth_response_record_items(const hth_response_record *record, hth_response_item *out);

#endif

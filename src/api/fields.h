/*
 * fields.h - the fields of a JSON object, each read with its type and range
 *
 * A reader is made of an object and its path, and asked for one field after another. The first thing that is wrong fills
 * the error; from then on nothing is read any more, and the outputs stay as they were. So a parser reads all its fields
 * and looks at the error once. A field that is absent or null leaves its output as it was.
 */
#ifndef HTH_API_FIELDS_H
#define HTH_API_FIELDS_H

#include "api/error.h"
#include "api/notes.h"

typedef struct hth_fields {
    json_t *object;   /* borrowed; NULL: every field is absent */
    const char *path; /* of the object, "messages[2]."; "" for the body */
    hth_api_error *error;
    hth_api_notes *notes; /* of what is passed over; NULL: a field that is not known is an error */
} hth_fields;

/* A reader of another object of the same request. */
hth_fields hth_fields_inside(const hth_fields *body, json_t *object, const char *path);

/* Has anything gone wrong so far? */
bool hth_fields_failed(const hth_fields *fields);
/* The path of a field, in a buffer of the caller's. Returns the buffer. */
enum { HTH_PATH_BYTES = 128 };
const char *hth_fields_path(const hth_fields *fields, const char *name, char path[HTH_PATH_BYTES]);

/* A field that is neither absent nor null, whatever it is; NULL otherwise. Borrowed. */
json_t *hth_fields_any(const hth_fields *fields, const char *name);
/* Is it there, and not null? */
bool hth_fields_has(const hth_fields *fields, const char *name);
void hth_fields_require(const hth_fields *fields, const char *name);

/* Of these types, or an error. Strings are borrowed from the object, and at most bytes_max long. */
void hth_fields_bool(const hth_fields *fields, const char *name, bool *out);
void hth_fields_number(const hth_fields *fields, const char *name, double low, double high, double *out);
void hth_fields_float(const hth_fields *fields, const char *name, double low, double high, float *out);
void hth_fields_integer(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, json_int_t *out);
void hth_fields_u32(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, uint32_t *out);
void hth_fields_string(const hth_fields *fields, const char *name, size_t bytes_max, const char **out);
json_t *hth_fields_array(const hth_fields *fields, const char *name, size_t n_max);
json_t *hth_fields_object(const hth_fields *fields, const char *name);
/*
 * A reader of element i of the body's array of that name, with its path in the caller's buffer. False, with the error
 * filled, where the element is no object.
 */
bool hth_fields_item(const hth_fields *body, const char *name, const json_t *array, size_t i, char path[HTH_PATH_BYTES],
                     hth_fields *out);

/* Pass over members of the object that are none of these, with a note of each but nulls; the list ends with NULL. */
void hth_fields_rest(const hth_fields *fields, const char *const *known);
/* A field that is known, but has no effect here: a note, unless it is absent or null. */
void hth_fields_pass_over(const hth_fields *fields, const char *name);
/* Refuse fields, unless they are absent or null, without which the reply would not be what was asked for. */
void hth_fields_unsupported(const hth_fields *fields, const char *const *names);

/* The word for a JSON value's type: "a number". */
const char *hth_json_type_name(const json_t *value);
/* An error about a value's type, for what the functions above do not read. */
void hth_fail_type(hth_api_error *error, const char *path, const char *wanted, const json_t *value);

#endif

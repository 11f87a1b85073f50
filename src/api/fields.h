/*
 * fields.h - the fields of a JSON object, each read with its type and range
 *
 * A reader has an object and the object's path. A parser reads one field after another and looks at the error once, at
 * the end: the first fault fills the error, and from then on no function reads anything, and outputs stay as they were.
 * A field that is absent or null leaves its output as it was, too.
 */
#ifndef HTH_API_FIELDS_H
#define HTH_API_FIELDS_H

#include "api/error.h"
#include "api/notes.h"

enum { HTH_PATH_BYTES = 128 };

typedef struct hth_fields {
    json_t *object; /* borrowed; NULL: every field is absent */
    hth_api_error *error;
    hth_api_notes *notes;      /* of fields that have no effect; NULL: an unknown field is an error */
    char path[HTH_PATH_BYTES]; /* of the object with a dot behind it, "messages[2]."; "" for the body */
} hth_fields;

/* Has anything gone wrong so far? */
bool hth_fields_failed(const hth_fields *fields);
/* The path of a field, cut where it is too long, in the caller's buffer, which is returned. */
const char *hth_fields_path(const hth_fields *fields, const char *name, char path[HTH_PATH_BYTES]);

/* A field that is neither absent nor null, of any type; NULL otherwise. Borrowed. */
json_t *hth_fields_any(const hth_fields *fields, const char *name);
/* Is the field there, and not null? */
bool hth_fields_has(const hth_fields *fields, const char *name);
void hth_fields_require(const hth_fields *fields, const char *name);

/* A field of one type; any other type is an error. Strings are borrowed from the object and at most bytes_max long. */
void hth_fields_bool(const hth_fields *fields, const char *name, bool *out);
void hth_fields_number(const hth_fields *fields, const char *name, double low, double high, double *out);
void hth_fields_float(const hth_fields *fields, const char *name, double low, double high, float *out);
/* high from INT32_MAX on is no bound of the field but its type's: a larger number counts as high. */
void hth_fields_integer(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, json_int_t *out);
void hth_fields_u32(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, uint32_t *out);
void hth_fields_string(const hth_fields *fields, const char *name, size_t bytes_max, const char **out);
/* A string that must be there and fit, copied. */
void hth_fields_copy(const hth_fields *fields, const char *name, char *out, size_t capacity);
json_t *hth_fields_array(const hth_fields *fields, const char *name, size_t n_max);
json_t *hth_fields_object(const hth_fields *fields, const char *name);
/*
 * The index of the field's text in words, which end with NULL; -1 when the field is absent or, with an error, no such
 * word.
 */
int hth_fields_word(const hth_fields *fields, const char *name, const char *const *words);

/* A reader of the object in a field. False when there is none: in *out every field is absent then. */
bool hth_fields_enter(const hth_fields *fields, const char *name, hth_fields *out);
/* A reader of element i of array, the field of that name. False, with the error filled, when it is no object. */
bool hth_fields_item(const hth_fields *fields, const char *name, const json_t *array, size_t i, hth_fields *out);

/* Note that a field has no effect; name may go deeper, "images[].type". */
void hth_fields_note(const hth_fields *fields, const char *name);
/* The same, unless the field is absent or null. */
void hth_fields_pass_over(const hth_fields *fields, const char *name);
/*
 * Note every member of the object that is not null and not in known, a list that ends with NULL; or refuse the first.
 */
void hth_fields_rest(const hth_fields *fields, const char *const *known);
/* Refuse fields, unless they are absent or null, without which the reply would not be what was asked for. */
void hth_fields_unsupported(const hth_fields *fields, const char *const *names);

/* The error "'PATH' TEXT" about a field. */
void hth_fields_fail(const hth_fields *fields, hth_api_error_kind kind, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/*
 * The error about the type of value, which is the field or an element of it: "'PATH' is a number; it must be WANTED".
 */
void hth_fields_wrong_type(const hth_fields *fields, const char *name, const char *wanted, const json_t *value);
/* The words for a JSON value's type: "a number"; NULL is "nothing". */
const char *hth_json_type_name(const json_t *value);

#endif

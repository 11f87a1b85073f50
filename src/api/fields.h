/*
 * fields.h - the fields of a JSON object, each read with its type and range
 *
 * A reader has an object and the object's path. A parser reads one field after another and checks the error once, at
 * the end. The first fault fills the error; after that, no function reads anything and outputs do not change. A field
 * that is absent or null does not change its output either.
 */
#ifndef HTH_API_FIELDS_H
#define HTH_API_FIELDS_H

#include "api/error.h"
#include "api/notes.h"

enum { HTH_PATH_BYTES = 128 };

/* A list of names for the functions below, which lives as long as the block that it stands in. */
#define HTH_NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* Is it one of these names, which end with NULL? */
bool hth_is_among(const char *name, const char *const *names);

typedef struct hth_fields {
    json_t *object; /* borrowed; NULL: every field is absent */
    hth_api_error *error;
    hth_api_notes *notes;      /* for fields without effect; NULL: an unknown field is an error */
    char path[HTH_PATH_BYTES]; /* of the object, with a trailing dot: "messages[2]."; "" for the body */
} hth_fields;

/* Has anything gone wrong so far? */
bool hth_fields_failed(const hth_fields *fields);
/* Write the path of a field to the caller's buffer, truncated if it is too long. Returns the buffer. */
const char *hth_fields_path(const hth_fields *fields, const char *name, char path[HTH_PATH_BYTES]);

/* A field of any type, borrowed; NULL if it is absent or null. */
json_t *hth_fields_any(const hth_fields *fields, const char *name);
/* Is the field present and not null? */
bool hth_fields_has(const hth_fields *fields, const char *name);
void hth_fields_require(const hth_fields *fields, const char *name);

/*
 * A field of one type; any other type is an error. Strings are borrowed from the object and at most bytes_max long. out
 * of a bool or a string may be NULL.
 */
void hth_fields_bool(const hth_fields *fields, const char *name, bool *out);
void hth_fields_number(const hth_fields *fields, const char *name, double low, double high, double *out);
void hth_fields_float(const hth_fields *fields, const char *name, double low, double high, float *out);
/* If high is at least INT32_MAX, it is the limit of a type and not of the field: a larger number is read as high. */
void hth_fields_integer(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, json_int_t *out);
void hth_fields_u32(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, uint32_t *out);
void hth_fields_string(const hth_fields *fields, const char *name, size_t bytes_max, const char **out);
/* A string that must be present; NULL with the error filled. */
const char *hth_fields_required(const hth_fields *fields, const char *name, size_t bytes_max);
/* Copy a string that must be present and fit. */
void hth_fields_copy(const hth_fields *fields, const char *name, char *out, size_t capacity);
json_t *hth_fields_array(const hth_fields *fields, const char *name, size_t n_max);
json_t *hth_fields_object(const hth_fields *fields, const char *name);
/*
 * The index of the field's text in words, which end with NULL; -1 if the field is absent, or, with an error, if it is
 * not one of them.
 */
int hth_fields_word(const hth_fields *fields, const char *name, const char *const *words);

/* A reader of the object in a field. False if there is no object: every field of *out is then absent. */
bool hth_fields_enter(const hth_fields *fields, const char *name, hth_fields *out);
/* The same for an object that must be present. */
bool hth_fields_enter_required(const hth_fields *fields, const char *name, hth_fields *out);
/*
 * A reader of element i of array, the field of that name. False at the end of the array, after an error, and, with the
 * error filled, if the element is not an object.
 */
bool hth_fields_item(const hth_fields *fields, const char *name, const json_t *array, size_t i, hth_fields *out);

/* Note that a field has no effect. name may be a path into the field: "images[].type". */
void hth_fields_note(const hth_fields *fields, const char *name);
/* The same, unless the field is absent or null. */
void hth_fields_pass_over(const hth_fields *fields, const char *name);
/* The same for each of these names, which end with NULL. */
void hth_fields_pass_over_all(const hth_fields *fields, const char *const *names);
/*
 * Note every member of the object that is not null and not in known, a NULL-terminated list. If unknown fields are
 * errors, refuse the first one.
 */
void hth_fields_rest(const hth_fields *fields, const char *const *known);
/*
 * Refuse each of these fields that is present and not null: ignoring it would give the client a reply that it did not
 * ask for.
 */
void hth_fields_unsupported(const hth_fields *fields, const char *const *names);

/* The error "'PATH' TEXT" about a field. */
void hth_fields_fail(const hth_fields *fields, hth_api_error_kind kind, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with HTH_API_INVALID_VALUE. */
#define hth_fields_refuse(fields, name, ...) hth_fields_fail(fields, HTH_API_INVALID_VALUE, name, __VA_ARGS__)
/*
 * The error about the type of value, which is the field or an element of it: "'PATH' is a number; it must be WANTED".
 */
void hth_fields_wrong_type(const hth_fields *fields, const char *name, const char *wanted, const json_t *value);
/* A phrase for the type of a JSON value: "a number"; "nothing" for NULL. */
const char *hth_json_type_name(const json_t *value);

#endif

/*
 * config_file.h - a configuration file as a tree of values with line numbers
 *
 * The syntax is the common part of UCL, which contains JSON:
 *
 *     # a comment, and a comment of the other kind: / * ... * /
 *     key = value;                 '=' or ':' or nothing; ';' or ',' or the end of the line
 *     list = [1, "two", three];
 *     section { key = value }
 *     section "title" { ... }      the same as section { title { ... } }
 *
 * Texts are plain words, or texts in "double quotes" with JSON's escapes, or in 'single quotes' without escapes. Other
 * features of UCL (commands such as .include, variables, here-documents) are errors with their line. A key may occur
 * several times; the code that reads it decides what that means.
 */
#ifndef HTH_OPTIONS_CONFIG_FILE_H
#define HTH_OPTIONS_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "options/pool.h"
#include "hearth.h"

enum { HTH_CONFIG_BYTES_MAX = 4 << 20, HTH_CONFIG_DEPTH_MAX = 16 };

typedef enum hth_config_kind {
    HTH_CONFIG_SECTION,
    HTH_CONFIG_LIST,
    HTH_CONFIG_QUOTED, /* a text */
    HTH_CONFIG_PLAIN,  /* a number, a word, or a text without quotes */
} hth_config_kind;

typedef struct hth_config_node hth_config_node;
struct hth_config_node {
    hth_config_kind kind;
    const char *key; /* NULL in a list, and for the whole file */
    unsigned line;   /* of the value */
    unsigned key_line;
    /* Offsets in the text: of the key or title of a member, of its value, and of the end. */
    size_t begin, value_begin, end;
    const char *text;             /* of a QUOTED or PLAIN node */
    const hth_config_node *first; /* of a SECTION or LIST: its nodes, in the order of the file */
    const hth_config_node *next;
};

typedef struct hth_config_file {
    const char *name;            /* for messages */
    const hth_config_node *root; /* a SECTION */
    uint32_t permissions;        /* of the file: the lower nine bits of its mode */
    uint32_t owner;              /* its user */
    bool is_regular;
    const char *text; /* the content, n_text bytes */
    size_t n_text;
} hth_config_file;

/*
 * Read a file; everything in *out belongs to pool. The path "-" is standard input. HEARTH_NOT_FOUND, HEARTH_PERMISSION,
 * HEARTH_IO; HEARTH_CORRUPT with "NAME:LINE: ..."; HEARTH_NO_MEMORY.
 */
hearth_status hth_config_file_read(hth_pool *pool, const char *path, hth_config_file *out, hearth_error *err);
/* Likewise from memory, n bytes. */
hearth_status hth_config_file_parse(hth_pool *pool, const char *name, const char *text, size_t n,
                                    const hth_config_node **out, hearth_error *err);

/* Write a text in double quotes, so that a file may have it. */
void hth_config_quote(const char *text, FILE *out);

#endif

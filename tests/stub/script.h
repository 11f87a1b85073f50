/*
 * script.h - replies of the stub engine by script, for tests of programs that need sensible ones
 *
 * A script is a chat template that begins with the line "#script". The lines after it are replies, parted by lines
 * "#reply": the first is that of a conversation's first turn of the assistant, and so on; turns without one are made up
 * as ever. So the reply depends on nothing but the prompt, and is the same after a restart.
 *
 * Where a conversation stands is known from its tokens, one after the other, and is kept with each cell as the real
 * engine keeps in cells what it knows of the tokens before: a prefix that is restored goes on by the script, too.
 */
#ifndef HTH_TEST_STUB_SCRIPT_H
#define HTH_TEST_STUB_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hth_stub_script hth_stub_script;

/* Of a chat template; NULL: it is no script, or there is no memory. */
hth_stub_script *hth_stub_script_new(const char *chat_template);
void hth_stub_script_free(hth_stub_script *script); /* accepts NULL */

/* Where a conversation stands: at its beginning when all is zero. Bytes of a cell, in no particular order. */
enum { HTH_STUB_PLACE_BYTES = 16 };
typedef struct hth_stub_place {
    uint32_t n_turns;  /* of the assistant that have begun */
    uint32_t n_reply;  /* bytes of the reply that is open */
    uint8_t where;     /* outside, in the head of a turn, in a reply, in the template's variables before one */
    uint8_t n_matched; /* bytes of the head, or of the variables' end, that are as expected */
    uint8_t n_quiet;   /* bytes of the reply that are as the mark not to think */
    uint8_t n_values;  /* bytes of the reply that are as the beginning of the variables */
} hth_stub_place;

void hth_stub_place_read(const uint8_t bytes[HTH_STUB_PLACE_BYTES], hth_stub_place *out);
void hth_stub_place_write(const hth_stub_place *place, uint8_t bytes[HTH_STUB_PLACE_BYTES]);

/* A token follows: a byte, or one of these. */
enum { HTH_STUB_TURN_BEGIN = -1, HTH_STUB_TURN_END = -2, HTH_STUB_OTHER = -3 };
void hth_stub_place_push(hth_stub_place *place, int token);
/* The token that the script has next: a byte, HTH_STUB_TURN_END, or HTH_STUB_OTHER where it says nothing. */
int hth_stub_script_next(const hth_stub_script *script, const hth_stub_place *place);

#endif

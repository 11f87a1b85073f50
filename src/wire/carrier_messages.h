/*
 * carrier_messages.h - what workers, the front and the carrier tell each other about rows of other nodes
 *
 * The carrier is the process that moves rows between nodes. It has a socket to the front and one to each worker, of the
 * kind SOCK_SEQPACKET, so a message is read whole or not at all. Each begins with 36 bytes:
 *
 *    0  u8   kind
 *    1  u8   end (hth_carrier_end)
 *    2  u8   bytes of name
 *    3  u8   bytes of address
 *    4  u32  number
 *    8  u32  n_tokens
 *   12  u32  n_rows
 *   16  u64  ns
 *   24  u64  n_bytes
 *   32  u32  n_keys, then name, address, and 32 bytes for each key
 *
 * Integers are little-endian. Members that a kind does not name are zeros:
 *
 *   worker to carrier
 *     FETCH    fetch rows of a prompt from node `name`. keys: of the block boundaries that are missing here, in order;
 *              the first n_tokens of the prompt are known. n_rows: tokens of the prompt after these. ns: the time in
 *              which they would be computed here; 0: unknown. number: the worker's, for the answer
 *     DROP     nobody waits for fetch `number` any more
 *   carrier to worker
 *     HERE     fetches are taken from now on
 *     FETCHED  fetch `number` is over; n_tokens of the prompt came, in n_rows rows; end
 *   front to worker, in the place of a carrier that has ended
 *     GONE     all fetches are over, and none are taken until HERE
 *   front to carrier
 *     SERVE    with a descriptor: a connection of another node, whose first bytes are still unread
 *     WORKER   with a descriptor: the socket to a worker of model `name`
 *     NODE     node `name` listens at `address`; empty: it is gone
 *   carrier to front
 *     PULLED   a fetch of model `name` from the node at `address` is over: n_tokens, n_rows, n_bytes, ns, end
 *     SERVED   another node got n_rows rows with n_bytes
 */
#ifndef HTH_WIRE_CARRIER_MESSAGES_H
#define HTH_WIRE_CARRIER_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTH_CARRIER_KEY_BYTES = 32,
    HTH_CARRIER_KEYS_MAX = 4096, /* a million tokens */
    HTH_CARRIER_MESSAGE_BYTES_MAX = 36 + 2 * 255 + HTH_CARRIER_KEYS_MAX * HTH_CARRIER_KEY_BYTES,
};

/* The first byte of a connection for rows, before TLS: a TLS handshake begins with another one. */
#define HTH_CARRIER_PREAMBLE "HRW1"

typedef enum hth_carrier_kind {
    HTH_CARRIER_FETCH = 1,
    HTH_CARRIER_DROP,
    HTH_CARRIER_FETCHED,
    HTH_CARRIER_SERVE,
    HTH_CARRIER_WORKER,
    HTH_CARRIER_NODE,
    HTH_CARRIER_PULLED,
    HTH_CARRIER_SERVED,
    HTH_CARRIER_HERE,
    HTH_CARRIER_GONE,
    HTH_CARRIER_KINDS,
} hth_carrier_kind;

/* How a fetch ended. */
typedef enum hth_carrier_end {
    HTH_CARRIER_WELL,    /* all rows that the node has are here */
    HTH_CARRIER_NOTHING, /* the node has none of them */
    HTH_CARRIER_SLOW,    /* computing is faster; some rows may be here */
    HTH_CARRIER_BROKEN,  /* the connection broke, or what came was wrong; likewise */
    HTH_CARRIER_REFUSED, /* the node is unknown, or was silent just now, or too many fetches run */
    HTH_CARRIER_ENDS,
} hth_carrier_end;
extern const char *const hth_carrier_end_names[]; /* by end: "well" */

enum { HTH_CARRIER_NAME_BYTES = 256 };

typedef struct hth_carrier_message {
    hth_carrier_kind kind;
    hth_carrier_end end;
    uint32_t number;
    uint32_t n_tokens;
    uint32_t n_rows;
    uint64_t ns;
    uint64_t n_bytes;
    char name[HTH_CARRIER_NAME_BYTES];
    char address[HTH_CARRIER_NAME_BYTES];
    const uint8_t *keys; /* [n_keys * HTH_CARRIER_KEY_BYTES], borrowed */
    uint32_t n_keys;     /* at most HTH_CARRIER_KEYS_MAX */
} hth_carrier_message;

/* Write a message to bytes; the result is its length, or 0: it has too many keys. */
size_t hth_carrier_write(const hth_carrier_message *message, uint8_t bytes[HTH_CARRIER_MESSAGE_BYTES_MAX]);
/* Read the message in bytes, [n]. False: it is malformed. */
bool hth_carrier_read(const uint8_t *bytes, size_t n, hth_carrier_message *out);

/*
 * A pair of connected sockets, non-blocking and closed on exec, with room for the longest message. False: errno; some
 * systems have no such sockets.
 */
bool hth_carrier_pair(int pair[2]);

/* Send a message, and a descriptor unless fd is -1; the caller keeps it. Never waits. False: it was not sent. */
bool hth_carrier_send(int socket, const hth_carrier_message *message, int fd);

typedef enum hth_carrier_received {
    HTH_CARRIER_GOT,
    HTH_CARRIER_NONE,   /* now */
    HTH_CARRIER_CLOSED, /* the other side is gone */
    HTH_CARRIER_BAD,    /* this one was malformed */
} hth_carrier_received;
/*
 * Receive a message without waiting. Its keys lie in buffer. *fd_out: a descriptor that came with it, the caller's; -1:
 * none.
 */
hth_carrier_received hth_carrier_receive(int socket, uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX],
                                         hth_carrier_message *out, int *fd_out);

#endif

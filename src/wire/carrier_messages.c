#include "wire/carrier_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

enum { HEAD_BYTES = 36 };

const char *const hth_carrier_end_names[] = { "well", "nothing", "slow", "broken", "refused", NULL };

/* ---- bytes ---- */

size_t hth_carrier_write(const hth_carrier_message *message, uint8_t bytes[HTH_CARRIER_MESSAGE_BYTES_MAX])
{
    const size_t n_name = strnlen(message->name, sizeof(message->name) - 1),
                 n_address = strnlen(message->address, sizeof(message->address) - 1),
                 n_keys = (size_t)message->n_keys * HTH_CARRIER_KEY_BYTES;

    if (message->n_keys > HTH_CARRIER_KEYS_MAX)
        return 0;
    bytes[0] = (uint8_t)message->kind;
    bytes[1] = (uint8_t)message->end;
    bytes[2] = (uint8_t)n_name;
    bytes[3] = (uint8_t)n_address;
    hth_put_u32(bytes + 4, message->number);
    hth_put_u32(bytes + 8, message->n_tokens);
    hth_put_u32(bytes + 12, message->n_rows);
    hth_put_u64(bytes + 16, message->ns);
    hth_put_u64(bytes + 24, message->n_bytes);
    hth_put_u32(bytes + 32, message->n_keys);
    memcpy(bytes + HEAD_BYTES, message->name, n_name);
    memcpy(bytes + HEAD_BYTES + n_name, message->address, n_address);
    if (n_keys > 0)
        memcpy(bytes + HEAD_BYTES + n_name + n_address, message->keys, n_keys);
    return HEAD_BYTES + n_name + n_address + n_keys;
}

bool hth_carrier_read(const uint8_t *bytes, size_t n, hth_carrier_message *out)
{
    size_t n_name, n_address;

    if (n < HEAD_BYTES || bytes[0] == 0 || bytes[0] >= HTH_CARRIER_KINDS || bytes[1] >= HTH_CARRIER_ENDS)
        return false;
    n_name = bytes[2];
    n_address = bytes[3];
    *out = (hth_carrier_message){ .kind = (hth_carrier_kind)bytes[0],
                                  .end = (hth_carrier_end)bytes[1],
                                  .number = hth_get_u32(bytes + 4),
                                  .n_tokens = hth_get_u32(bytes + 8),
                                  .n_rows = hth_get_u32(bytes + 12),
                                  .ns = hth_get_u64(bytes + 16),
                                  .n_bytes = hth_get_u64(bytes + 24),
                                  .n_keys = hth_get_u32(bytes + 32) };
    if (out->n_keys > HTH_CARRIER_KEYS_MAX ||
        n != HEAD_BYTES + n_name + n_address + (size_t)out->n_keys * HTH_CARRIER_KEY_BYTES)
        return false;
    memcpy(out->name, bytes + HEAD_BYTES, n_name);
    memcpy(out->address, bytes + HEAD_BYTES + n_name, n_address);
    out->keys = bytes + HEAD_BYTES + n_name + n_address;
    return strlen(out->name) == n_name && strlen(out->address) == n_address;
}

/* ---- sockets ---- */

static bool prepare(int fd)
{
    const int room = 2 * HTH_CARRIER_MESSAGE_BYTES_MAX;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* if it fails, long messages are not sent */
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

bool hth_carrier_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return false;
    if (prepare(pair[0]) && prepare(pair[1]))
        return true;
    (void)close(pair[0]); /* nothing was written, here and below */
    (void)close(pair[1]);
    return false;
}

bool hth_carrier_send(int socket, const hth_carrier_message *message, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .bytes = { 0 } };
    uint8_t *bytes = malloc(HTH_CARRIER_MESSAGE_BYTES_MAX);
    struct iovec part = { .iov_base = bytes };
    struct msghdr envelope = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t n = -1;

    part.iov_len = bytes ? hth_carrier_write(message, bytes) : 0;
    if (fd >= 0) {
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
        envelope.msg_control = control.bytes;
        envelope.msg_controllen = sizeof(control.bytes);
    }
    if (part.iov_len > 0)
        do
            /* The sandbox of workers, who send no descriptors, allows only the simple call. */
            n = fd >= 0 ? sendmsg(socket, &envelope, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : send(socket, bytes, part.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
    free(bytes);
    return n > 0;
}

/* The descriptor in an envelope; further ones are closed. -1: none. */
static int take_descriptor(struct msghdr *envelope)
{
    int kept = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(envelope); c; c = CMSG_NXTHDR(envelope, c)) {
        const size_t n =
            c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (kept < 0)
                kept = fd;
            else
                (void)close(fd);
        }
    }
    return kept;
}

hth_carrier_received hth_carrier_receive(int socket, uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX],
                                         hth_carrier_message *out, int *fd_out)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = { .iov_base = buffer, .iov_len = HTH_CARRIER_MESSAGE_BYTES_MAX };
    struct msghdr envelope = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)
    };
    ssize_t n;

    *fd_out = -1;
    do
        n = recvmsg(socket, &envelope, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? HTH_CARRIER_NONE : HTH_CARRIER_CLOSED;
    if (n == 0)
        return HTH_CARRIER_CLOSED;
    *fd_out = take_descriptor(&envelope);
    if (!(envelope.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && hth_carrier_read(buffer, (size_t)n, out))
        return HTH_CARRIER_GOT;
    if (*fd_out >= 0)
        (void)close(*fd_out);
    *fd_out = -1;
    return HTH_CARRIER_BAD;
}

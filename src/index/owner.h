/*
 * owner.h - a file that stays locked as long as its process lives
 *
 * A process signs its reservations in the index with a token. The token is the name of a file that its owner keeps
 * locked. The system drops the lock however the process ends. So the lock shows whether an owner is alive; a process id
 * cannot, because another process may have it by now.
 */
#ifndef HTH_INDEX_OWNER_H
#define HTH_INDEX_OWNER_H

#include "base/fs.h"
#include "base/status.h"

typedef struct hth_owner hth_owner;

/* Make and lock a new owner file in an existing directory. fs is borrowed, directory is copied. */
hearth_status hth_owner_open(const hth_fs *fs, const char *directory, hth_owner **out, hearth_error *err);
/* Remove the file. Accepts NULL. */
void hth_owner_close(hth_owner *owner);
/*
 * Free memory and descriptor, but keep the file: in the child of a fork, the file belongs to the parent. Accepts NULL.
 */
void hth_owner_forget(hth_owner *owner);

/* Never 0. */
uint64_t hth_owner_token(const hth_owner *owner);
/* Is the owner of that token alive? True if unknown. Any thread. */
bool hth_owner_lives(const hth_owner *owner, uint64_t token);
/* Remove the files of dead owners. Returns their number. */
size_t hth_owner_sweep(const hth_owner *owner);

#endif

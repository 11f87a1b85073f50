/*
 * owner.h - a file that is locked for as long as its process lives
 *
 * Whoever reserves something in the index signs with a token. The token is the name of a file that its owner keeps
 * locked; the system drops the lock when the process ends, in whatever way. So whether an owner lives is asked of the
 * lock, never of a process id, which may be another process's by now.
 */
#ifndef HTH_CACHE_OWNER_H
#define HTH_CACHE_OWNER_H

#include "base/fs.h"
#include "base/status.h"

typedef struct hth_owner hth_owner;

/* Make and lock a new owner file in an existing directory. fs and directory are borrowed and copied, respectively. */
hearth_status hth_owner_open(const hth_fs *fs, const char *directory, hth_owner **out, hearth_error *err);
/* Remove the file. Accepts NULL. */
void hth_owner_close(hth_owner *owner);
/* Free memory and descriptor only: in the child of a fork, where the file is the parent's. Accepts NULL. */
void hth_owner_forget(hth_owner *owner);

/* Never 0. */
uint64_t hth_owner_token(const hth_owner *owner);
/* Does the owner of that token live? True in doubt. Any thread. */
bool hth_owner_lives(const hth_owner *owner, uint64_t token);
/* Remove the files of owners that are dead; returns how many there were. */
size_t hth_owner_sweep(const hth_owner *owner);

#endif

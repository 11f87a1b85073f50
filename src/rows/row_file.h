/* row_file.h - row files: their names, facts from their heads, and a folder for bad ones */
#ifndef HTH_ROWS_ROW_FILE_H
#define HTH_ROWS_ROW_FILE_H

#include "base/fs.h"
#include "rows/kvc.h"

#define HTH_ROW_FILE_BYTES_MIN 80u
#define HTH_ROW_FILE_BYTES_MAX (UINT64_C(4) << 30)
/* "<64 hex>-snapshot.kvc" and the terminating NUL. */
#define HTH_ROW_FILE_NAME_BYTES (64 + 1 + 8 + 4 + 1)

void hth_row_file_name(const hth_row_id *id, char name[HTH_ROW_FILE_NAME_BYTES]);
/* The row that a file with this name holds; false if it is not the name of a row file. */
bool hth_row_file_parse_name(const char *name, hth_row_id *out);
/* <rows_directory>/ab/ab...-block.kvc; false if it does not fit. */
bool hth_row_file_path(const char *rows_directory, const hth_row_id *id, char *path, size_t capacity);
/* <rows_directory>/ab; false if it does not fit. */
bool hth_row_file_folder(const char *rows_directory, const hth_row_id *id, char *path, size_t capacity);

/* The place of row files: the user_data of the two functions below. */
typedef struct hth_row_files {
    const hth_fs *fs;
    const char *rows_directory;
} hth_row_files;

/*
 * Is there a regular file with the name of the row? And: is that name certainly unused? Both are false if the answer is
 * unknown. The index calls them inside its transactions (hth_index_adopt, hth_index_remove_lost); user_data is a
 * hth_row_files.
 */
bool hth_row_file_is_there(const hth_row_id *id, void *user_data);
bool hth_row_file_is_gone(const hth_row_id *id, void *user_data);

/*
 * Open the file of a row and get its size. HEARTH_NOT_FOUND; HEARTH_CORRUPT if it is not a file or its size is
 * impossible; HEARTH_PERMISSION, HEARTH_IO. Close with hth_fs_close.
 */
hearth_status hth_row_file_open(const hth_fs *fs, const char *path, int *fd_out, hth_fs_stat *stat_out,
                                hearth_error *err);

/*
 * Read the head of the file of row id, without the image; *out is undefined on failure. HEARTH_CORRUPT if the head is
 * not sound or belongs to another row; otherwise as hth_row_file_open, and HEARTH_NO_MEMORY.
 */
hearth_status hth_row_file_head(const hth_fs *fs, const char *path, const hth_row_id *id, hth_row_head *out,
                                hearth_error *err);
/* The same without the tokens. */
hearth_status hth_row_file_meta(const hth_fs *fs, const char *path, const hth_row_id *id, hth_row_meta *out,
                                hearth_error *err);

/*
 * Read the name of the model that made a row from its open file of file_bytes bytes. Writes it to out[capacity],
 * terminated, perhaps truncated; "" if the row does not say. The bytes come from the file and are untrusted. Statuses
 * as hth_row_file_head.
 */
hearth_status hth_row_file_model(const hth_fs *fs, int fd, const hth_row_id *id, uint64_t file_bytes, char *out,
                                 size_t capacity, hearth_error *err);

/* The facts of a parsed head; false if it belongs to another row. file_bytes and mtime are those of the file. */
bool hth_row_file_meta_of(const hth_kvc_info *info, const hth_row_id *id, uint64_t file_bytes, uint64_t mtime,
                          hth_row_meta *out);
/* Fill in the tokens of a head whose meta is known. */
void hth_row_file_tokens_of(const hth_kvc_info *info, hth_row_head *head);

/* ---- the quarantine: a folder for rows that failed their checks, so that people can examine them ---- */

#define HTH_QUARANTINE_FILES_MAX 64

/*
 * Move the file of row id at path into the quarantine directory, then remove the oldest files there until at most
 * HTH_QUARANTINE_FILES_MAX are left. A directory with the name of a row is also moved, but never removed. 0 or -errno;
 * -ENOENT if it is gone already.
 */
int hth_quarantine_row(const hth_fs *fs, const char *directory, const char *path, const hth_row_id *id);

/* The number of quarantined files. */
size_t hth_quarantine_count(const hth_fs *fs, const char *directory);

#endif

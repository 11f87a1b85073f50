/*
 * index_rows.h - rows for an index that are metadata alone
 */
#ifndef HTH_TEST_INDEX_ROWS_H
#define HTH_TEST_INDEX_ROWS_H

#include "index/index.h"

/* As hth_index_publish and hth_index_adopt (without a look at files), of rows whose tokens are not known. */
hearth_status test_index_publish(hth_index *index, const hth_row_meta *rows, size_t n);
hearth_status test_index_adopt(hth_index *index, const hth_row_meta *rows, size_t n, size_t *adopted_out);

#endif

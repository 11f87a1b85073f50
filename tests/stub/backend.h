/*
 * backend.h - the stub engine, for tests that link it
 *
 * Everybody else loads it, as the module hearth-stub.
 */
#ifndef HTH_TEST_STUB_BACKEND_H
#define HTH_TEST_STUB_BACKEND_H

#include "engine/backend.h"

/* No file, a byte-level vocabulary, logits that are a hash of all tokens so far. */
const hth_backend *hth_backend_stub(void);

#endif

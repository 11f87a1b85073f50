/*
 * chat.h - the chat template of the stub engine, and how its replies are read
 */
#ifndef HTH_TEST_STUB_CHAT_H
#define HTH_TEST_STUB_CHAT_H

#include "engine/backend.h"

/* As the functions of hth_backend; they need no model. */
hearth_status hth_stub_chat_prompt(const hth_engine_model *model, const hearth_conversation *conversation,
                                   hearth_chat_prompt *out, hearth_error *err);
hearth_status hth_stub_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err);
void hth_stub_chat_reader_free(hth_engine_chat_reader *reader);
hearth_status hth_stub_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes, bool is_whole,
                                 hth_chat_reply *out, hearth_error *err);

#endif

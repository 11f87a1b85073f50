/*
 * backend_chat.c - readers of replies, checked before llama_chat.cpp sees the arguments
 */
#include "llama/backend_chat.h"

#include <stdlib.h>

#include "llama/llama_chat.h"

struct hth_engine_chat_reader {
    hth_llama_chat_reader *reader;
};

hearth_status hth_backend_llama_chat_reader_new(const char *parser, hth_engine_chat_reader **out, hearth_error *err)
{
    hth_engine_chat_reader *reader;
    hearth_status status;

    if (!parser || !out)
        return hth_fail(err, HEARTH_MISUSE, "a reader of replies needs the parser of a prompt");
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a reader of replies");
    status = hth_llama_chat_reader_new(parser, &reader->reader, err);
    if (status != HEARTH_OK) {
        free(reader);
        return status;
    }
    *out = reader;
    return HEARTH_OK;
}

void hth_backend_llama_chat_reader_free(hth_engine_chat_reader *reader)
{
    if (reader)
        hth_llama_chat_reader_free(reader->reader);
    free(reader);
}

hearth_status hth_backend_llama_chat_read(const hth_engine_chat_reader *reader, const char *text, size_t n_bytes,
                                          bool is_whole, hth_chat_reply *out, hearth_error *err)
{
    if (!reader || (!text && n_bytes > 0) || !out)
        return hth_fail(err, HEARTH_MISUSE, "reading a reply needs a reader and its text");
    return hth_llama_chat_read(reader->reader, text ? text : "", n_bytes, is_whole, out, err);
}

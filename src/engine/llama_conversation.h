/*
 * llama_conversation.h - a conversation, checked, as llama-common takes it
 *
 * JSON is measured before it is parsed (256 KiB, 64 levels and 4096 values a text; 8 million pairs of members of one object
 * in all), and schemas are compiled (HTH_CHECK_STEPS_MAX in all).
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_ENGINE_LLAMA_CONVERSATION_H
#define HTH_ENGINE_LLAMA_CONVERSATION_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include <chat.h>

#include "engine/llama_chat.h"
#include "engine/llama_schemas.h"
#include "engine/module_lock.h"

/* What is wrong with a conversation: HEARTH_MISUSE. */
struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* Schemas that were found good, and what compiling them took, up to 4 MiB. Tools come again with each request. Any thread. */
class known_schemas
{
  public:
    known_schemas() = default;
    known_schemas(const known_schemas &) = delete;

    /* Can the schema be compiled? What that takes, or took, goes off steps. what names it in errors. Throws refused. */
    void check(const std::string &what, const std::string &schema, uint64_t &steps);

  private:
    bool find(const std::string &schema, uint64_t &taken);
    void keep(const std::string &schema, uint64_t taken);

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    std::unordered_map<std::string, uint64_t> taken_;
    size_t n_bytes_ = 0;
};

/*
 * A conversation for the engine. inputs is as it is, for the text of the prompt; told has shapes in place of schemas, for the
 * engine's parser; schemas writes the grammar of that parser. Everything is copied.
 */
struct asked {
    common_chat_templates_inputs inputs, told;
    llama_schemas schemas;
};

/* markup: of calls in this template. Throws refused, and what llama-common throws. */
asked asked_of(known_schemas &known, llama_schemas::markup markup, const hearth_conversation &conversation);

#endif

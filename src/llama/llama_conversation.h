/*
 * llama_conversation.h - a checked conversation, in the form that llama-common expects
 *
 * JSON is measured before it is parsed: at most 256 KiB, 64 levels and 4096 values per text, and 8 million pairs of
 * members of the same object in all texts. Schemas are compiled, in at most HTH_CHECK_STEPS_MAX steps in total.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_CONVERSATION_H
#define HTH_LLAMA_LLAMA_CONVERSATION_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include <chat.h>

#include "engine/module_lock.h"
#include "llama/llama_chat.h"
#include "llama/llama_schemas.h"

/* An error in a conversation; it becomes HEARTH_MISUSE. */
struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/*
 * Up to 4 MiB of valid schemas, with the steps that compiling each one took, because tools are sent again with each
 * request. Any thread.
 */
class known_schemas
{
  public:
    known_schemas() = default;
    known_schemas(const known_schemas &) = delete;

    /* Check that the schema can be compiled, and subtract its steps, even if it is already known. Throws refused. */
    void check(const std::string &what, const std::string &schema, uint64_t &steps);

  private:
    bool find(const std::string &schema, uint64_t &taken);
    void keep(const std::string &schema, uint64_t taken);

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    std::unordered_map<std::string, uint64_t> taken_;
    size_t n_bytes_ = 0;
};

/*
 * A conversation for the engine. inputs has the real schemas, for the text of the prompt. told has shapes instead, for
 * the engine's parser. schemas writes the grammar of that parser. Everything is copied.
 */
struct asked {
    common_chat_templates_inputs inputs, told;
    llama_schemas schemas;
};

/* markup: of the template's calls. Throws refused, and the exceptions of llama-common. */
asked asked_of(known_schemas &known, llama_schemas::markup markup, const hearth_conversation &conversation);

#endif

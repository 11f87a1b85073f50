/*
 * llama_plain_text.h - keeps the text of messages plain text, so that it never becomes a control token
 *
 * A tokenizer that is asked to read control tokens does so wherever their names occur. The template's own output must
 * be read that way, but a client's text must not, or a document could close its turn and begin a system message. So
 * before a template is applied, the names of control tokens in the client's texts are replaced by private-use
 * characters that occur neither in the client's texts nor in the template. The template then cannot write a client's
 * name, whatever it does to the texts. After rendering, the names are put back, and their places are known.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_LLAMA_LLAMA_PLAIN_TEXT_H
#define HTH_LLAMA_LLAMA_PLAIN_TEXT_H

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <chat.h>
#include <llama.h>

#include "llama/llama_shim.h"
#include "hearth.h"

/* The names of a vocabulary's control tokens. Immutable: any thread may use it. */
class control_names
{
  public:
    explicit control_names(const llama_vocab *vocab); /* NULL: none */

    /* The length of the longest name with which the text begins; 0: none. *token (may be NULL): its token. */
    size_t at(const char *text, size_t n_bytes, llama_token *token = nullptr) const;
    /* Is the text the beginning of a name, or a whole one? */
    bool begins_one(const char *text, size_t n_bytes) const;
    /* Likewise the end of one. */
    bool ends_one(const char *text, size_t n_bytes) const;
    size_t bytes_max() const
    {
        return bytes_max_;
    }

  private:
    struct name {
        std::string text;
        llama_token token;
    };

    std::vector<name> names_; /* sorted by text */
    std::vector<std::string> backwards_;
    bool is_first_[256] = {};
    size_t bytes_max_ = 0;
};

/* The names in the texts of one conversation. */
class plain_texts
{
  public:
    /* reasoning: names that an assistant's content may contain, because the template looks for them there. */
    plain_texts(const control_names &names, const std::set<std::string> &reasoning, const std::string &source,
                const common_chat_templates_inputs &inputs);

    bool any() const
    {
        return !marks_.empty();
    }
    /* The same conversation with marks in place of the names. */
    common_chat_templates_inputs marked(const common_chat_templates_inputs &inputs) const;
    /*
     * The text with the names in place of the marks. *places (may be NULL): where names that are text begin, ascending.
     */
    std::string undone(const std::string &text, std::vector<size_t> *places) const;

  private:
    const control_names &names_;
    const std::set<std::string> &reasoning_;
    std::map<std::string, std::string> marks_, texts_; /* by text; by mark, also as JSON writes it in ASCII */
};

/*
 * The tokens of a text with HTH_PLAIN_MARK before the names that are text; other names are read as control tokens. The
 * text between two control tokens is tokenized separately, as the engine does, in slices of n_slice bytes.
 */
hearth_status hth_llama_marked_tokens(const hth_llama_slices *slices, int32_t n_slice, const llama_vocab *vocab,
                                      const control_names &names, const char *text, size_t n_bytes, bool add_special,
                                      std::vector<hearth_token> &out, const hth_tokenize_stop *stop, hearth_error *err);

#endif

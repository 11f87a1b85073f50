/*
 * llama_schemas.h - schemas of tools and replies, compiled by us and not by the engine
 *
 * The engine's templates make a parser and a grammar out of tools. What they ask of a schema is little: the names of an
 * object's members, which of them are required, and their types. Its reader and its converter of schemas take time
 * without bound, though, and know a part of JSON Schema. So the engine is given shapes, schemas that say this little;
 * prompts are rendered with the true ones elsewhere; and the grammar is written once more from the engine's parser, with
 * "%json" and the true schema (gbnf.h) at each place where the parser has a schema. The parser knows such a place by a
 * name, "tool-NAME-schema" or "tool-NAME-arg-MEMBER-schema". Any JSON goes where a place cannot be given its schema: two have
 * one name, several parts speak of one member, no room is left, or the parameters do not compile. So the grammar may let
 * through more than the schema, but for a root that stands whole; it never lets through less.
 *
 * Made for llama.cpp v0.5.0: the names, common_peg_arena::build_grammar, and the members that shapes have.
 *
 * C++, for the engine's files only. An object is one thread's at a time.
 */
#ifndef HTH_ENGINE_LLAMA_SCHEMAS_H
#define HTH_ENGINE_LLAMA_SCHEMAS_H

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <json.h>

class llama_schemas
{
  public:
    /*
     * How a template writes a call: all arguments as one JSON object (none); each argument in markup of its own (members);
     * members of arguments, too (members_of_members, MiniMax M3).
     */
    enum class markup { none, members, members_of_members };

    /* More members, or longer names, than the engine gets done with in a tenth of a second. */
    struct too_much : std::runtime_error {
        using std::runtime_error::runtime_error;
    };

    explicit llama_schemas(markup known) : known_(known)
    {
    }
    llama_schemas(const llama_schemas &) = delete;
    llama_schemas(llama_schemas &&) = default;

    /*
     * The shape of a tool's parameters, or of a reply, which are objects. Where parameters cannot be compiled
     * (is_compiled false), the tool may be called with any, each of its type. Throws too_much.
     */
    common_json tool(const std::string &name, const common_json &parameters, bool is_compiled);
    common_json reply(const common_json &schema);

    /* The grammar of a parser that was made with these shapes, as common_chat_params has it. */
    std::string grammar(const std::string &parser, bool is_lazy) const;

  private:
    /* A subschema of a root, and the way to it, "#/a/b". */
    struct place {
        const common_json *schema;
        std::string path;
    };
    /* What is said of one member: by all of these places, and by one of the alternatives' where there are some. */
    struct member {
        std::string name;
        std::vector<place> all, alternatives;
    };
    struct members {
        std::vector<member> list;
        std::map<std::string, size_t> index;
        std::set<std::string> required;
    };
    /* Of a grammar: JSON by this schema. */
    struct element {
        const common_json *root;
        member of;
        bool is_any;
    };

    void add(const std::string &name, const member &of);
    void spend(size_t n = 1);
    bool follow(place &at);
    unsigned types_of_parts(const place &at, const char *keyword, size_t depth);
    unsigned types(const place &at, size_t depth);
    unsigned types(const member &of);
    void collect(const place &at, bool is_required, bool is_alternative, members &out, size_t depth);
    common_json object(const members &found, const std::string &prefix, size_t depth);
    common_json of_type(const member &of, unsigned type, const std::string &name, size_t depth);
    common_json shape(const member &of, const std::string &name, size_t depth);

    markup known_;
    size_t n_steps_left_ = 200000, n_members_left_ = 8192; /* of all tools */
    std::deque<common_json> roots_;                        /* never moves what is in it */
    const common_json *root_ = nullptr;                    /* at work: the last of them */
    bool is_compiled_ = true;
    std::vector<const common_json *> open_;   /* objects whose members are being looked at */
    std::map<std::string, element> elements_; /* by the parser's names */
};

#endif

/*
 * llama_schemas.h - compiles the schemas of tools and replies here, not in the engine
 *
 * The engine's templates make a parser and a grammar from the tools. They need little of a schema: the names of an
 * object's members, the required ones, and their types. But the engine's reader and converter of schemas take unbounded
 * time and know only a part of JSON Schema. So the engine gets shapes: schemas that contain only this. Prompts are
 * rendered with the real schemas elsewhere. The grammar is then written again from the engine's parser. At each place
 * where the parser has a schema, the grammar has "%json" and the real schema (gbnf.h).
 *
 * The parser names such a place "tool-NAME-schema" or "tool-NAME-arg-MEMBER-schema". A place accepts any JSON when it
 * cannot get its schema: two places have the same name, several parts describe one member, no space is left, or the
 * parameters do not compile. So the grammar may accept more than the schema (except for a root that is written as a
 * whole), but never less.
 *
 * Made for llama.cpp v0.5.0: the names, common_peg_arena::build_grammar, and the members that shapes have.
 *
 * C++, for the engine's files only. One thread at a time uses an object.
 */
#ifndef HTH_LLAMA_LLAMA_SCHEMAS_H
#define HTH_LLAMA_LLAMA_SCHEMAS_H

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
     * The form of a call in a template: all arguments as one JSON object (none), each argument in its own markup
     * (members), or also members of arguments in markup (members_of_members, MiniMax M3).
     */
    enum class markup { none, members, members_of_members };

    /* More members, or longer names, than the engine can handle in a tenth of a second. */
    struct too_much : std::runtime_error {
        using std::runtime_error::runtime_error;
    };

    explicit llama_schemas(markup known) : known_(known)
    {
    }
    llama_schemas(const llama_schemas &) = delete;
    llama_schemas(llama_schemas &&) = default;

    /*
     * The shape of a tool's parameters, or of a reply; both are objects. If the parameters cannot be compiled
     * (is_compiled false), the tool accepts any arguments of the right types. Throws too_much.
     */
    common_json tool(const std::string &name, const common_json &parameters, bool is_compiled);
    common_json reply(const common_json &schema);

    /* The grammar of a parser that was made with these shapes, in the form of common_chat_params. */
    std::string grammar(const std::string &parser, bool is_lazy) const;

  private:
    /* A subschema of a root, and the path to it, "#/a/b". */
    struct place {
        const common_json *schema;
        std::string path;
    };
    /* The places that describe one member: it must meet all of all and, if there are alternatives, one of them. */
    struct member {
        std::string name;
        std::vector<place> all, alternatives;
    };
    struct members {
        std::vector<member> list;
        std::map<std::string, size_t> index;
        std::set<std::string> required;
    };
    /* A grammar's element: JSON that this schema accepts. */
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
    size_t n_steps_left_ = 200000, n_members_left_ = 8192; /* for all tools */
    std::deque<common_json> roots_;                        /* a deque never moves its elements */
    const common_json *root_ = nullptr;                    /* the current root: the last one */
    bool is_compiled_ = true;
    std::vector<const common_json *> open_;   /* objects whose members are being read */
    std::map<std::string, element> elements_; /* keyed by the parser's names */
};

#endif

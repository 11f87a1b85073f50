/*
 * llama_schemas.h - schemas of tools and replies, compiled by us and not by the engine
 *
 * The engine's templates make a parser and a grammar out of tools. What they ask of a schema is little: the names of an
 * object's members, which of them are required, and their types. Its reader and its converter of schemas take time
 * without bound, though, and know a part of JSON Schema. So the engine is given shapes, schemas that say this little;
 * prompts are rendered with the true ones elsewhere; and the grammar is written once more from the engine's parser, with
 * "%json" and the true schema (gbnf.h) at each place where the parser has a schema. The parser knows such a place by a
 * name, "tool-NAME-schema" or "tool-NAME-arg-MEMBER-schema"; where two places have one name, any JSON goes there.
 *
 * Made for llama.cpp v0.5.0: the names, common_peg_arena::build_grammar, and the members that shapes have.
 *
 * C++, for the engine's files only. One thread.
 */
#ifndef HTH_ENGINE_LLAMA_SCHEMAS_H
#define HTH_ENGINE_LLAMA_SCHEMAS_H

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <json.h>

class llama_schemas
{
  public:
    /* What a template writes as markup of its own, so that the engine must know of it; the rest is JSON. */
    enum class markup { none, members, members_of_members };

    explicit llama_schemas(markup known) : known_(known)
    {
    }

    /* The shape of a tool's parameters, or of a reply, which are objects. */
    common_json tool(const std::string &name, const common_json &parameters);
    common_json reply(const common_json &schema);

    /* The grammar of a parser that was made with these shapes, as common_chat_params has it. */
    std::string grammar(const std::string &parser, bool is_lazy) const;

  private:
    /* A subschema, and the way to it from the root, "#/a/b". */
    struct place {
        const common_json *schema;
        std::string path;
    };
    struct member {
        std::string name;
        place at;
        bool is_required;
    };
    struct members {
        std::vector<member> list;
        std::map<std::string, size_t> index;
    };

    void add(const std::string &name, const place &at);
    bool spend(size_t depth);
    bool follow(place &at) const;
    unsigned types(place at, size_t depth);
    unsigned types_of_parts(const place &at, const char *keyword, size_t depth);
    void collect(place at, bool is_required, members &out, size_t depth);
    common_json object(const members &found, const std::string &prefix, size_t depth);
    common_json of_type(const place &at, unsigned type, const std::string &name, size_t depth);
    common_json shape(place at, const std::string &name, size_t depth);

    markup known_;
    size_t n_left_ = 20000; /* steps, of all schemas together */
    const common_json *root_ = nullptr;
    std::map<std::string, std::string> elements_; /* of the grammar, by the parser's names */
};

#endif

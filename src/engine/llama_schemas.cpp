/*
 * llama_schemas.cpp - shapes of schemas, and grammars with the schemas themselves
 *
 * A shape is found by walking the schema along references, allOf and alternatives, within an account of steps and a
 * depth; what lies beyond is a shape without a type, which accepts anything. Shapes steer the engine only: what a reply
 * may hold is the true schema's.
 */
#include "engine/llama_schemas.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <json-schema-to-grammar.h>
#include <json-schema.h>
#include <peg-parser.h>

namespace
{

using json = common_json;

constexpr size_t depth_max = 24;

/* Types as bits. */
enum : unsigned { t_null = 1, t_boolean = 2, t_integer = 4, t_number = 8, t_string = 16, t_array = 32, t_object = 64 };
constexpr unsigned t_all = 127;

const std::vector<std::pair<unsigned, const char *>> type_names = {
    { t_object, "object" },   { t_array, "array" },     { t_string, "string" }, { t_number, "number" },
    { t_integer, "integer" }, { t_boolean, "boolean" }, { t_null, "null" },
};

unsigned type_named(const json &name)
{
    for (const auto &[type, text] : type_names)
        if (name.is_string() && name == text)
            return type == t_number ? (unsigned)t_number | t_integer : type;
    return 0;
}

unsigned type_of_value(const json &value)
{
    return value.is_null()           ? t_null
         : value.is_boolean()        ? t_boolean
         : value.is_number_integer() ? t_integer
         : value.is_number()         ? t_number
         : value.is_string()         ? t_string
         : value.is_array()          ? t_array
                                     : t_object;
}

/* Without "type", keywords tell what a schema is about; 0: they do not. */
unsigned type_by_keywords(const json &schema)
{
    for (const char *key : { "properties", "patternProperties", "additionalProperties", "required", "propertyNames" })
        if (schema.contains(key))
            return t_object;
    for (const char *key : { "items", "prefixItems", "minItems", "maxItems" })
        if (schema.contains(key))
            return t_array;
    for (const char *key : { "pattern", "minLength", "maxLength", "format" })
        if (schema.contains(key))
            return t_string;
    for (const char *key : { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf" })
        if (schema.contains(key))
            return (unsigned)t_number | t_integer;
    return 0;
}

/* A name as a part of a JSON pointer in a fragment. */
std::string escaped(const std::string &name)
{
    std::string out;

    for (char c : name)
        if (c == '~' || c == '/' || c == '%')
            out += c == '~' ? "~0" : c == '/' ? "~1" : "%25";
        else
            out += c;
    return out;
}

/* Of a part of a reference. */
std::string unescaped(const std::string &part)
{
    std::string out;

    for (size_t i = 0; i < part.size(); i++)
        if (part.compare(i, 2, "~0") == 0 || part.compare(i, 2, "~1") == 0)
            out += part[++i] == '0' ? '~' : '/';
        else if (part.compare(i, 3, "%25") == 0)
            out += '%', i += 2;
        else
            out += part[i];
    return out;
}

std::string rule_name(const std::string &name)
{
    std::string out;
    bool was_other = false;

    for (char c : name) {
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';

        if (is_word)
            out += c;
        else if (!was_other)
            out += '-';
        was_other = !is_word;
    }
    return out;
}

/* Rules as the engine's builder keeps them: each name once, with a number where it means something else. */
class rules
{
  public:
    std::string add(const std::string &given, const std::string &text)
    {
        std::string base = rule_name(given), name = base;

        for (size_t i = 0;; i++) {
            auto found = rules_.emplace(name, text);

            if (found.second || found.first->second == text)
                return name;
            name = base + std::to_string(i);
        }
    }
    std::string text() const
    {
        std::string out;

        for (const auto &[name, text] : rules_)
            out += name + " ::= " + text + "\n";
        return out;
    }

  private:
    /* What the engine's parsers call space: a model may write some, and not without end. */
    std::map<std::string, std::string> rules_{ { "space", "(\" \" | \"\\n\"{1,2} [ \\t]{0,20})?" } };
};

} /* namespace */

void llama_schemas::add(const std::string &name, const place &at)
{
    std::string element = at.schema->is_object() ? at.schema->dump() : "{}";

    if (at.path != "#" && element.find("\"$ref\"") != std::string::npos) /* it leads elsewhere */
        element = "[" + json(at.path).dump() + ", " + root_->dump() + "]";
    element = "%json " + element;
    auto found = elements_.emplace(name + "-schema", element);

    if (!found.second && found.first->second != element)
        found.first->second = "%json {}";
}

bool llama_schemas::spend(size_t depth)
{
    if (depth > depth_max || n_left_ == 0)
        return false;
    n_left_--;
    return true;
}

/* Go along a reference; false: it leads nowhere. */
bool llama_schemas::follow(place &at) const
{
    const std::string reference = at.schema->at("$ref").is_string() ? at.schema->at("$ref").get<std::string>() : "";
    const json *to = root_;
    size_t begin = 1;

    if (reference.compare(0, 1, "#") != 0)
        return false;
    while (begin < reference.size()) {
        size_t end = std::min(reference.find('/', begin + 1), reference.size());
        const std::string name = unescaped(reference.substr(begin + 1, end - begin - 1));

        if (reference[begin] != '/')
            return false;
        if (to->is_object() && to->contains(name))
            to = &to->at(name);
        else if (to->is_array() && !name.empty() && name.size() < 6 &&
                 name.find_first_not_of("0123456789") == std::string::npos && std::stoul(name) < to->size())
            to = &to->at((size_t)std::stoul(name));
        else
            return false;
        begin = end;
    }
    at = { to, reference };
    return true;
}

unsigned llama_schemas::types_of_parts(const place &at, const char *keyword, size_t depth)
{
    const json &parts = at.schema->at(keyword);
    bool is_all = keyword == std::string("allOf");
    unsigned found = is_all ? t_all : 0;

    for (size_t i = 0; parts.is_array() && i < parts.size(); i++) {
        unsigned one = types({ &parts.at(i), at.path }, depth + 1);

        found = is_all ? found & one : found | one;
    }
    return found ? found : t_all;
}

/* The types that values may have; of members, those of all that is said of them. */
unsigned llama_schemas::types(place at, size_t depth)
{
    unsigned found = t_all, stated = 0;

    if (!spend(depth) || !at.schema->is_object())
        return t_all;
    if (at.schema->contains("$ref"))
        return follow(at) ? types(at, depth + 1) : t_all;
    for (const char *key : { "allOf", "anyOf", "oneOf" })
        if (at.schema->contains(key))
            found &= types_of_parts(at, key, depth);
    if (at.schema->contains("const"))
        return found & type_of_value(at.schema->at("const"));
    if (at.schema->contains("enum") && at.schema->at("enum").is_array()) {
        for (const auto &value : at.schema->at("enum"))
            stated |= type_of_value(value);
    } else if (at.schema->contains("type") && at.schema->at("type").is_array()) {
        for (const auto &name : at.schema->at("type"))
            stated |= type_named(name);
    } else if (at.schema->contains("type")) {
        stated = type_named(at.schema->at("type"));
    } else if (found == t_all) {
        stated = type_by_keywords(*at.schema);
    }
    return stated ? found & stated : found;
}

/* The members of an object by all that says something of it. What only an alternative has is not required. */
void llama_schemas::collect(place at, bool is_required, members &out, size_t depth)
{
    if (!spend(depth) || !at.schema->is_object())
        return;
    if (at.schema->contains("$ref")) {
        if (follow(at))
            collect(at, is_required, out, depth + 1);
        return;
    }
    if (at.schema->contains("properties") && at.schema->at("properties").is_object())
        for (const auto &[name, value] : at.schema->at("properties").items())
            if (out.index.emplace(name, out.list.size()).second)
                out.list.push_back({ name, { &value, at.path + "/properties/" + escaped(name) }, false });
    for (const char *key : { "allOf", "anyOf", "oneOf" })
        for (size_t i = 0; at.schema->contains(key) && at.schema->at(key).is_array() && i < at.schema->at(key).size();
             i++)
            collect({ &at.schema->at(key).at(i), at.path + "/" + key + "/" + std::to_string(i) },
                    is_required && key == std::string("allOf"), out, depth + 1);
    if (is_required && at.schema->contains("required") && at.schema->at("required").is_array())
        for (const auto &name : at.schema->at("required")) {
            auto found = name.is_string() ? out.index.find(name.get<std::string>()) : out.index.end();

            if (found != out.index.end())
                out.list[found->second].is_required = true;
        }
}

json llama_schemas::object(const members &found, const std::string &prefix, size_t depth)
{
    json properties = json::object(), required = json::array();

    for (const member &one : found.list) {
        const std::string name = prefix + "-" + one.name;

        properties.set({ one.name, shape(one.at, name, depth + 1) });
        if (one.is_required)
            required.push_back(one.name);
    }
    return json{ { "type", "object" }, { "properties", properties }, { "required", required } };
}

json llama_schemas::of_type(const place &at, unsigned type, const std::string &name, size_t depth)
{
    for (const auto &[bit, text] : type_names) {
        if (bit != type)
            continue;
        if (known_ == markup::members_of_members && type == t_object) {
            members found;

            collect(at, true, found, depth);
            return object(found, name, depth + 1);
        }
        if (known_ == markup::members_of_members && type == t_array && at.schema->contains("items") &&
            at.schema->at("items").is_object())
            return json{ { "type", "array" },
                         { "items",
                           shape({ &at.schema->at("items"), at.path + "/items" }, name + "-item", depth + 1) } };
        return json{ { "type", text } };
    }
    return json::object();
}

json llama_schemas::shape(place at, const std::string &name, size_t depth)
{
    json alternatives = json::array();
    unsigned found = types(at, depth);

    add(name, at);
    if (!spend(depth) || found == t_all)
        return json::object();
    while (at.schema->contains("$ref") && spend(depth) && follow(at) && at.schema->is_object())
        ;
    if (found & t_number)
        found &= ~(unsigned)t_integer; /* which it has */
    for (const auto &[bit, text] : type_names)
        if (found & bit) {
            bool is_only = found == bit;

            if (is_only)
                return of_type(at, bit, name, depth);
            alternatives.push_back(of_type(at, bit, name + "-" + std::to_string(alternatives.size()), depth));
        }
    return json{ { "anyOf", alternatives } };
}

json llama_schemas::tool(const std::string &name, const json &parameters)
{
    place at = { &parameters, "#" };
    members found;

    root_ = &parameters;
    add("tool-" + name, at);
    if (known_ == markup::none)
        return json{ { "type", "object" } }; /* its grammar takes the engine the square of the optional members */
    collect(at, true, found, 0);
    for (const member &one : found.list)
        add("ling3-arg-" + name + "-" + one.name, one.at);
    return object(found, "tool-" + name + "-arg", 0);
}

json llama_schemas::reply(const json &schema)
{
    root_ = &schema;
    add("response-format", { &schema, "#" });
    elements_["response-format"] = elements_["response-format-schema"];
    return json{ { "type", "object" } };
}

std::string llama_schemas::grammar(const std::string &parser, bool is_lazy) const
{
    static const common_chat_schema_any any;
    common_peg_arena arena;
    rules written;
    common_grammar_builder builder{
        [&](const std::string &name, const std::string &rule) { return written.add(name, rule); },
        [&](const std::string &name, const common_chat_schema &) {
            auto found = elements_.find(name);

            return written.add(name, found == elements_.end() ? "%json {}" : found->second);
        },
    };

    arena.load(parser);
    for (size_t i = 0; i < arena.size(); i++)
        if (auto *schema = std::get_if<common_peg_schema_parser>(&arena.get(i)))
            schema->node = &any; /* it is not written with the parser; any will do, since the name tells */
    arena.build_grammar(builder, is_lazy);
    return written.text();
}

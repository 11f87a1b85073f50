/*
 * llama_schemas.cpp - shapes of schemas, and grammars with the real schemas
 *
 * A shape is found by walking the schema along references, allOf and alternatives. All tools of a conversation share
 * the limits of steps and members. Shapes decide how the engine reads a reply: a member that may be a string is text in
 * most notations, and JSON otherwise. So reaching a limit is an error and never results in a wrong shape. The walk ends
 * at a depth of 24 references or parts, and everything below counts as any JSON.
 */
#include "llama/llama_schemas.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <json-schema-to-grammar.h>
#include <json-schema.h>
#include <peg-parser.h>

#include "base/utf8.h"

namespace
{

using json = common_json;

constexpr size_t depth_max = 24;       /* of nested references and parts */
constexpr size_t nesting_max = 4;      /* of nested objects and lists whose members are markup */
constexpr size_t name_bytes_max = 256; /* the engine recurses along a name */
constexpr size_t place_bytes_max = 1000;
constexpr size_t copy_bytes_max = 16 << 10;
constexpr size_t elements_bytes_max = 224 << 10; /* of a grammar's 256 KiB */
constexpr size_t scanned_max = 200000;           /* values visited by searches for references */

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
         : value.is_number()         ? (unsigned)t_number | t_integer /* 1.0 counts as both */
         : value.is_string()         ? t_string
         : value.is_array()          ? t_array
                                     : t_object;
}

/* The types that keywords imply when "type" is missing; 0: none. */
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

/* A name escaped for use in a JSON pointer in a fragment. */
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

/* The name encoded in a part of a reference: first %XX is decoded, then ~0 and ~1. */
std::string unescaped(const std::string &part)
{
    std::string plain, out;

    for (size_t i = 0; i < part.size(); i++) {
        int high = part[i] == '%' && i + 2 < part.size() ? hth_hex_digit(part[i + 1]) : -1;
        int low = high >= 0 ? hth_hex_digit(part[i + 2]) : -1;

        plain += low >= 0 ? (char)(16 * high + low) : part[i];
        i += low >= 0 ? 2 : 0;
    }
    for (size_t i = 0; i < plain.size(); i++)
        if (plain.compare(i, 2, "~0") == 0 || plain.compare(i, 2, "~1") == 0)
            out += plain[++i] == '0' ? '~' : '/';
        else
            out += plain[i];
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

/* Rules as the engine's builder keeps them. A name that already has a different rule gets a number. */
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
            out.append(name).append(" ::= ").append(text).append("\n");
        return out;
    }

  private:
    /* The engine's parsers use this rule. It lets a model write some white space, but not without limit. */
    std::map<std::string, std::string> rules_{ { "space", "(\" \" | \"\\n\"{1,2} [ \\t]{0,20})?" } };
};

/* Makes a self-contained schema, including the definitions that it refers to. */
class alone
{
  public:
    alone(const json &root, size_t &n_left) : root_(root), n_left_(n_left)
    {
    }

    /* False: a reference leads outside the root's definitions, or the search takes too long. */
    bool make(const json &schema, json &out)
    {
        if (schema.contains("$defs") || schema.contains("definitions") || !scan(schema))
            return false;
        while (n_done_ < todo_.size()) {
            const json &definition = *todo_[n_done_++];

            if (!scan(definition))
                return false;
        }
        out = schema;
        for (const auto &[keyword, names] : found_) {
            json definitions = json::object();

            for (const auto &[name, definition] : names)
                definitions.set({ name, *definition });
            out.set({ keyword, definitions });
        }
        if (root_.contains("$schema"))
            out.set({ "$schema", root_.at("$schema") }); /* the draft determines the meaning of $ref */
        return true;
    }

  private:
    bool scan(const json &value)
    {
        size_t cost = 1 + (value.is_string() ? value.get<std::string>().size() / 64 : 0);

        if (n_left_ < cost)
            return false;
        n_left_ -= cost;
        if (value.is_array())
            for (const auto &one : value)
                if (!scan(one))
                    return false;
        if (value.is_object())
            for (const auto &[name, one] : value.items())
                if (std::string(name) == "$ref" && one.is_string() ? !take(one.get<std::string>()) : !scan(one))
                    return false;
        return true;
    }
    bool take(const std::string &reference)
    {
        for (const char *keyword : { "$defs", "definitions" }) {
            const std::string before = std::string("#/") + keyword + "/";

            if (reference.compare(0, before.size(), before) != 0)
                continue;
            const std::string name = unescaped(reference.substr(before.size()));

            if (reference.find('/', before.size()) != std::string::npos || !root_.contains(keyword) ||
                !root_.at(keyword).is_object() || !root_.at(keyword).contains(name))
                return false;
            if (found_[keyword].emplace(name, &root_.at(keyword).at(name)).second)
                todo_.push_back(&root_.at(keyword).at(name));
            return true;
        }
        return false;
    }

    const json &root_;
    size_t &n_left_;
    std::map<std::string, std::map<std::string, const json *>> found_;
    std::vector<const json *> todo_;
    size_t n_done_ = 0;
};

} /* namespace */

void llama_schemas::add(const std::string &name, const member &of)
{
    auto found = elements_.emplace(name + "-schema", element{ root_, of, !is_compiled_ });

    if (!found.second) {
        element &known = found.first->second;
        bool are_roots =
            !known.of.all.empty() && known.of.all[0].path == "#" && !of.all.empty() && of.all[0].path == "#";

        known.is_any = true;
        if (!are_roots)
            known.of = {};
    }
}

void llama_schemas::spend(size_t n)
{
    if (n_steps_left_ < n)
        throw too_much("the schemas of the tools take too long to be looked through; give fewer or simpler ones");
    n_steps_left_ -= n;
}

/* Follow a reference. False: it leads nowhere. */
bool llama_schemas::follow(place &at)
{
    const std::string reference = at.schema->at("$ref").is_string() ? at.schema->at("$ref").get<std::string>() : "";
    const json *to = root_;
    size_t begin = 1;

    if (reference.size() > place_bytes_max)
        throw too_much("a '$ref' has more than 1000 bytes");
    spend(1 + reference.size() / 16);
    if (reference.compare(0, 1, "#") != 0)
        return false;
    while (begin < reference.size()) {
        size_t end = std::min(reference.find('/', begin + 1), reference.size());
        const std::string name = unescaped(reference.substr(begin + 1, end - begin - 1));

        if (reference[begin] != '/')
            return false;
        spend(1 + to->size() / 8); /* members are searched one by one */
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
        unsigned one = types({ &parts.at(i), "" }, depth + 1);

        found = is_all ? found & one : found | one;
    }
    return found ? found : t_all;
}

/* The types of the schema's values; all types if none is left. */
unsigned llama_schemas::types(const place &at, size_t depth)
{
    unsigned found = t_all, stated = 0;

    spend(1 + (at.schema->is_object() ? at.schema->size() / 8 : 0));
    if (depth > depth_max || !at.schema->is_object())
        return t_all;
    if (at.schema->contains("$ref")) {
        place to = at;

        if (follow(to))
            found = types(to, depth + 1);
    }
    for (const char *key : { "allOf", "anyOf", "oneOf" })
        if (at.schema->contains(key))
            found &= types_of_parts(at, key, depth);
    if (at.schema->contains("const")) {
        stated = type_of_value(at.schema->at("const"));
    } else if (at.schema->contains("enum") && at.schema->at("enum").is_array()) {
        spend(at.schema->at("enum").size());
        for (const auto &value : at.schema->at("enum"))
            stated |= type_of_value(value);
    } else if (at.schema->contains("type") && at.schema->at("type").is_array()) {
        spend(at.schema->at("type").size());
        for (const auto &name : at.schema->at("type"))
            stated |= type_named(name);
    } else if (at.schema->contains("type")) {
        stated = type_named(at.schema->at("type"));
    } else if (found == t_all) {
        stated = type_by_keywords(*at.schema);
    }
    if (stated)
        found &= stated;
    return found ? found : t_all;
}

unsigned llama_schemas::types(const member &of)
{
    unsigned found = of.alternatives.empty() ? t_all : 0;

    for (const place &at : of.alternatives)
        found |= types(at, 0);
    for (const place &at : of.all)
        found &= types(at, 0);
    return found ? found : t_all;
}

/* Collect the members of an object from all schemas that describe it. Alternatives do not make a member required. */
void llama_schemas::collect(const place &at, bool is_required, bool is_alternative, members &out, size_t depth)
{
    spend(1 + (at.schema->is_object() ? at.schema->size() / 8 : 0));
    if (depth > depth_max || !at.schema->is_object())
        return;
    if (at.schema->contains("$ref")) {
        place to = at;

        if (follow(to))
            collect(to, is_required, is_alternative, out, depth + 1);
    }
    if (at.schema->contains("properties") && at.schema->at("properties").is_object())
        for (const auto &[name, value] : at.schema->at("properties").items()) {
            auto known = out.index.emplace(name, out.list.size());

            spend(1 + at.path.size() / 64);
            if (std::string(name).size() > name_bytes_max)
                throw too_much("a member has a name of more than 256 bytes");
            if (known.second)
                out.list.push_back({ name, {}, {} });
            member &one = out.list[known.first->second];

            (is_alternative ? one.alternatives : one.all)
                .push_back({ &value, at.path + "/properties/" + escaped(name) });
        }
    for (const char *key : { "allOf", "anyOf", "oneOf" })
        for (size_t i = 0; at.schema->contains(key) && at.schema->at(key).is_array() && i < at.schema->at(key).size();
             i++) {
            bool is_all = key == std::string("allOf");

            collect({ &at.schema->at(key).at(i), at.path + "/" + key + "/" + std::to_string(i) }, is_required && is_all,
                    is_alternative || !is_all, out, depth + 1);
        }
    if (is_required && at.schema->contains("required") && at.schema->at("required").is_array())
        for (const auto &name : at.schema->at("required")) {
            const std::string text = name.is_string() ? name.get<std::string>() : "";

            spend(1 + text.size() / 64);
            if (text.size() <= name_bytes_max)
                out.required.insert(text); /* a later schema may describe the member */
        }
}

json llama_schemas::object(const members &found, const std::string &prefix, size_t depth)
{
    json properties = json::object(), required = json::array();

    for (const member &one : found.list) {
        if (n_members_left_ == 0)
            throw too_much("the tools have more than 8192 members in all; give fewer tools, or simpler parameters");
        n_members_left_--;
        properties.set({ one.name, shape(one, prefix + "-" + one.name, depth) });
        if (found.required.count(one.name) > 0)
            required.push_back(one.name);
    }
    return json{ { "type", "object" }, { "properties", properties }, { "required", required } };
}

json llama_schemas::of_type(const member &of, unsigned type, const std::string &name, size_t depth)
{
    bool is_markup = known_ == markup::members_of_members && depth < nesting_max && of.all.size() == 1;
    place at = is_markup ? of.all[0] : place{ nullptr, "" };
    json made{ { "type", "object" } };

    for (size_t i = 0; is_markup && i < depth_max && at.schema->is_object() && at.schema->contains("$ref"); i++)
        if (!follow(at))
            break;
    for (const auto &[bit, text] : type_names)
        if (bit == type)
            made = json{ { "type", text } };
    if (!is_markup || !at.schema->is_object() || std::find(open_.begin(), open_.end(), at.schema) != open_.end())
        return made; /* a recursive schema is written once */
    open_.push_back(at.schema);
    if (type == t_object) {
        members found;

        collect(at, true, false, found, 0);
        made = object(found, name, depth + 1);
    } else if (type == t_array && at.schema->contains("items") && at.schema->at("items").is_object()) {
        const member item{ "", { { &at.schema->at("items"), at.path + "/items" } }, {} };

        made.set({ "items", shape(item, name + "-item", depth + 1) });
    }
    open_.pop_back();
    return made;
}

json llama_schemas::shape(const member &of, const std::string &name, size_t depth)
{
    json alternatives = json::array();
    unsigned found = types(of);

    add(name, of);
    if (found == t_all)
        return json::object();
    if (found & t_number)
        found &= ~(unsigned)t_integer; /* t_number includes it */
    for (const auto &[bit, text] : type_names)
        if (found == bit)
            return of_type(of, bit, name, depth);
        else if (found & bit)
            alternatives.push_back(of_type(of, bit, name + "-" + std::to_string(alternatives.size()), depth));
    return json{ { "anyOf", alternatives } };
}

json llama_schemas::tool(const std::string &name, const json &parameters, bool is_compiled)
{
    members found;

    root_ = &roots_.emplace_back(parameters);
    is_compiled_ = is_compiled;
    open_ = { root_ };
    add("tool-" + name, { "", { { root_, "#" } }, {} });
    if (known_ == markup::none)
        return json{ { "type", "object" } }; /* the engine's grammar of members grows with the square of their number */
    collect({ root_, "#" }, true, false, found, 0);
    for (const member &one : found.list)
        add("ling3-arg-" + name + "-" + one.name, one);
    return object(found, "tool-" + name + "-arg", 0);
}

json llama_schemas::reply(const json &schema)
{
    root_ = &roots_.emplace_back(schema);
    is_compiled_ = true;
    add("response-format", { "", { { root_, "#" } }, {} });
    elements_["response-format"] = elements_["response-format-schema"]; /* some templates use this name */
    return json{ { "type", "object" } };
}

/* The schema after %json; any JSON if the schema does not fit in the remaining space. */
static std::string text_of(const json &root, const json &schema, const std::string &path, size_t &n_left,
                           std::map<const json *, std::string> &roots)
{
    std::string text = schema.is_object() ? schema.dump() : "{}";
    json standing_alone;

    if (path == "#" || text.find("\"$ref\"") == std::string::npos)
        return text;
    if (alone(root, n_left).make(schema, standing_alone))
        return standing_alone.dump();
    auto known = roots.find(&root);
    if (known == roots.end())
        known = roots.emplace(&root, root.dump()).first;
    return path.size() > place_bytes_max || known->second.size() > copy_bytes_max
             ? "{}"
             : "[" + json(path).dump() + ", " + known->second + "]";
}

std::string llama_schemas::grammar(const std::string &parser, bool is_lazy) const
{
    static const common_chat_schema_any any;
    size_t n_left = scanned_max, n_bytes = 0;
    std::map<const json *, std::string> roots; /* as texts */
    common_peg_arena arena;
    rules written;
    auto element_text = [&](const element &one) {
        bool is_root = !one.of.all.empty() && one.of.all[0].path == "#";
        std::string text = is_root ? "{\"type\":\"object\"}" : "{}";

        if (!is_root && n_bytes >= elements_bytes_max)
            return std::string("%json {}");
        if (!one.is_any && one.of.all.size() == 1 && one.of.alternatives.empty())
            text = text_of(*one.root, *one.of.all[0].schema, one.of.all[0].path, n_left, roots);
        else if (!one.is_any && one.of.all.empty() && one.of.alternatives.size() == 1)
            text = text_of(*one.root, *one.of.alternatives[0].schema, one.of.alternatives[0].path, n_left, roots);
        if (n_bytes + text.size() > elements_bytes_max && !is_root)
            text = "{}";
        n_bytes += text.size();
        return "%json " + text;
    };
    common_grammar_builder builder{
        [&](const std::string &name, const std::string &rule) { return written.add(name, rule); },
        [&](const std::string &name, const common_chat_schema &) {
            auto found = elements_.find(name);

            /* No rule of the engine begins with "hearth-". */
            return written.add("hearth-" + name, found == elements_.end() ? "%json {}" : element_text(found->second));
        },
    };

    arena.load(parser);
    for (size_t i = 0; i < arena.size(); i++)
        if (auto *schema = std::get_if<common_peg_schema_parser>(&arena.get(i)))
            schema->node =
                &any; /* parsers are stored without their schemas; any will do, because the name finds the schema */
    arena.build_grammar(builder, is_lazy);
    return written.text();
}

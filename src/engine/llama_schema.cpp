/*
 * llama_schema.cpp - a schema is rewritten to what the engine's converter honours, or refused
 *
 * The converter (json_schema_to_grammar in llama-common, v0.5.0) reads the keywords it knows and passes over the rest:
 * a minimum of a number, a length next to a pattern, anything next to anyOf. A pattern that it cannot convert becomes
 * "any string" and a warning on the terminal; "." and [^a] let quotes into strings. So it is never shown a schema as it
 * came. Everything here reads the given schema strictly and builds another one that says the same, or less, in words
 * that the converter takes literally:
 *
 *   annotations are left out; unknown keywords, and known ones where the converter would ignore them, are refused
 *   references get names of their own, since it joins those that look alike
 *   a list of types, and allOf of objects, are written out; oneOf becomes anyOf if no two alternatives overlap
 *   a pattern's characters are written as classes without quotes, backslashes and control characters
 *   formats that it does not know become patterns; a bound beyond 15 digits gets the other one, as far off as it goes
 *
 * In what it returns, keys of additional properties are kept from holding such characters in the same way, and escapes
 * from being half a surrogate pair.
 *
 * All of it is bounded in time: the text is measured before it is parsed, the rewriter does each thing once and copies
 * little, rules get names that are short and apart, and schema_cost.h tells how long the converter will take.
 */
#include "engine/llama_schema.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <json-schema-to-grammar.h>
#include <json.h>

#include "engine/schema_cost.h"

extern "C" {
#include "base/json_bounds.h"
}

namespace
{

using json = common_json;

constexpr size_t nesting_max = 64;
constexpr size_t values_max = 32768;
constexpr uint64_t pairs_max = 4000000; /* the parser keeps members in a list; some 20 ms */
constexpr double ms_max = 100;          /* for the converter */
constexpr size_t nodes_max = 4096;
constexpr size_t depth_max = 2 * nesting_max; /* of subschemas, where allOf goes on through references */
constexpr size_t properties_max = 500;
constexpr size_t optional_max = 200; /* the converter's time grows with their cube */
constexpr size_t name_bytes_max = 256;
constexpr size_t own_name_bytes = 16;               /* of what has a place of its own */
constexpr size_t path_bytes_max = 200;              /* of names on the way; what is below gets a name of its own */
constexpr size_t merged_bytes_max = 4 << 20;        /* of what all allOf copy */
constexpr size_t pattern_bytes_max = 1 << 20;       /* of all patterns, as they are written for the converter */
constexpr size_t comparisons_max = 1 << 18;         /* of values, to tell alternatives of oneOf apart */
constexpr size_t beside_more_bytes_max = 48;        /* each character is a group in a group; see gbnf.h */
constexpr int64_t count_max = 10000;                /* as in gbnf.h */
constexpr int64_t bound_max = INT64_MAX - 1;        /* the converter takes INT64_MAX and its opposite for none */
constexpr int64_t lone_bound_max = 999999999999999; /* it writes a bound without the other one wrongly beyond this */

/* Formats that are written as patterns: texts that are of the format, not always all of them. */
std::string format_pattern(const std::string &format)
{
    static const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    static const std::string h = "[0-9A-Fa-f]{1,4}";
    static const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,60}[A-Za-z0-9])?";
    static const std::string atom = "[A-Za-z0-9_+-]{1,20}";
    static const std::string of_path = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";
    static const std::string count = "[0-9]{1,9}";
    static const std::string seconds = count + "S";
    static const std::string minutes = count + "M(" + seconds + ")?";
    static const std::string time = "T(" + count + "H(" + minutes + ")?|" + minutes + "|" + seconds + ")";
    static const std::string months = count + "M(" + count + "D)?";
    static const std::map<std::string, std::string> known = {
        { "ipv4", "^(" + byte + "\\.){3}" + byte + "$" },
        { "ipv6", "^((" + h + ":){7}" + h + "|(" + h + ":){1,7}:|(" + h + ":){1,6}:" + h + "|(" + h + ":){1,5}(:" + h +
                      "){1,2}|(" + h + ":){1,4}(:" + h + "){1,3}|(" + h + ":){1,3}(:" + h + "){1,4}|(" + h +
                      ":){1,2}(:" + h + "){1,5}|" + h + ":(:" + h + "){1,6}|:(:" + h + "){1,7}|::)$" },
        /* four labels of 62 letters are what a name has room for in any case */
        { "hostname", "^" + label + "(\\." + label + "){0,3}$" },
        { "email", "^" + atom + "(\\." + atom + "){0,2}@" + label + "(\\." + label + "){1,2}$" },
        { "uri", "^[A-Za-z][A-Za-z0-9+.-]{0,30}://" + label + "(\\." + label + "){0,3}(:[0-9]{1,5})?(/(" + of_path +
                     ")*)*(\\?([/?]|" + of_path + ")*)?(#([/?]|" + of_path + ")*)?$" },
        { "duration", "^P((" + count + "D|" + months + "|" + count + "Y(" + months + ")?)(" + time + ")?|" + time +
                          "|" + count + "W)$" },
    };
    auto found = known.find(format);

    return found == known.end() ? "" : found->second;
}

struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(const std::string &path, const std::string &why)
{
    throw refused("at " + (path.size() > 120 ? path.substr(0, 120) + "..." : path) + ": " + why);
}

/* The path of what is called name in path's member key. */
std::string below(const std::string &path, const std::string &key, const std::string &name)
{
    std::string at = path;

    at += '/';
    at += key;
    at += '/';
    at += name;
    return at;
}

std::string quoted(const std::string &text)
{
    return "'" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) + "'";
}

/* ---- patterns ---- */

using range = std::pair<uint32_t, uint32_t>;
using ranges = std::vector<range>;

constexpr uint32_t last_code_point = 0x10FFFF;

ranges complement(ranges set)
{
    ranges out;
    uint32_t next = 0;

    std::sort(set.begin(), set.end());
    for (const range &r : set) {
        if (r.first > next)
            out.emplace_back(next, r.first - 1);
        next = std::max(next, r.second + 1);
    }
    if (next <= last_code_point)
        out.emplace_back(next, last_code_point);
    return out;
}

/* Without what a JSON string cannot hold as it is. */
ranges printable(const ranges &set)
{
    ranges out = complement(set);

    for (const range &r : { range(0, 0x1F), range('"', '"'), range('\\', '\\'), range(0x7F, 0x7F) })
        out.push_back(r);
    return complement(out);
}

class pattern_reader
{
  public:
    /* room: bytes that may be written. */
    pattern_reader(const std::string &text, const std::string &path, size_t room)
        : text_(text), path_(path), room_(room)
    {
    }

    std::string rewrite()
    {
        size_t n_backslashes = 0;

        while (n_backslashes + 2 < text_.size() && text_[text_.size() - 2 - n_backslashes] == '\\')
            n_backslashes++;
        if (text_.size() < 2 || text_.front() != '^' || text_.back() != '$' || n_backslashes % 2 == 1)
            fail("must begin with ^ and end with $");
        end_ = text_.size() - 1;
        out_ = "^";
        while (at_ < end_)
            read_one();
        if (depth_ > 0)
            fail("has a group without its ')'");
        return out_ + "$";
    }

  private:
    [[noreturn]] void fail(const std::string &why)
    {
        refuse(path_, "the pattern " + quoted(text_) + " " + why);
    }

    uint32_t code_point()
    {
        auto c = (uint8_t)text_[at_++];
        int n = c < 0x80 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        uint32_t value = n == 0 ? c : c & (0x3Fu >> n);

        for (; n > 0 && at_ < end_; n--)
            value = value << 6 | ((uint8_t)text_[at_++] & 0x3Fu);
        return value;
    }

    /* \d, \w, \s and their opposites; false: another escape. */
    bool class_escape(char letter, ranges &set)
    {
        ranges own;

        switch (std::tolower((unsigned char)letter)) {
        case 'd': own = { range('0', '9') }; break;
        case 'w': own = { range('0', '9'), range('A', 'Z'), range('_', '_'), range('a', 'z') }; break;
        case 's': own = { range('\t', '\r'), range(' ', ' '), range(0xA0, 0xA0), range(0x2028, 0x2029) }; break;
        default: return false;
        }
        if (letter < 'a')
            own = complement(own);
        set.insert(set.end(), own.begin(), own.end());
        return true;
    }

    uint32_t escaped()
    {
        char letter = at_ < end_ ? text_[at_++] : '\0';
        size_t n_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 0;
        uint32_t value = 0;

        switch (letter) {
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'f': return '\f';
        case 'v': return '\v';
        default: break;
        }
        if (n_digits == 0) {
            if (std::isalnum((unsigned char)letter) || letter == '\0')
                fail(std::string("has \\") + letter + ", which cannot be honoured");
            at_--;
            return code_point();
        }
        for (size_t i = 0; i < n_digits; i++) {
            if (at_ >= end_ || !std::isxdigit((unsigned char)text_[at_]))
                fail("has an escape without its hexadecimal digits");
            value = value << 4 | (uint32_t)std::stoul(text_.substr(at_++, 1), nullptr, 16);
        }
        return value;
    }

    void put(const ranges &set)
    {
        ranges kept = printable(set);
        char text[32];

        if (kept.empty())
            fail("needs a quote, a backslash or a control character, which cannot be honoured");
        out_ += "[";
        for (const range &r : kept) {
            (void)std::snprintf(text, sizeof(text), "\\U%08X-\\U%08X", r.first, r.second);
            out_ += text;
        }
        out_ += "]";
        if (out_.size() > room_)
            fail("and those before it are too long");
        can_repeat_ = true;
    }

    void read_class()
    {
        ranges set;
        bool negated = at_ < end_ && text_[at_] == '^';

        at_ += negated;
        while (at_ < end_ && text_[at_] != ']') {
            uint32_t first, last;

            if (text_[at_] == '\\' && at_ + 1 < end_ && class_escape(text_[at_ + 1], set)) {
                at_ += 2;
                continue;
            }
            first = text_[at_] == '\\' ? (at_++, escaped()) : code_point();
            last = first;
            if (at_ + 1 < end_ && text_[at_] == '-' && text_[at_ + 1] != ']') {
                at_++;
                last = text_[at_] == '\\' ? (at_++, escaped()) : code_point();
            }
            if (last < first)
                fail("has a range that ends before it begins");
            set.emplace_back(first, last);
        }
        if (at_ >= end_)
            fail("has a class without its ']'");
        at_++;
        put(negated ? complement(set) : set);
    }

    void read_count(int64_t &value)
    {
        if (at_ >= end_ || !std::isdigit((unsigned char)text_[at_]))
            fail("has a repetition that is not {m}, {m,} or {m,n}");
        for (value = 0; at_ < end_ && std::isdigit((unsigned char)text_[at_]); at_++)
            value = std::min<int64_t>(value * 10 + (text_[at_] - '0'), count_max + 1);
    }

    void read_repetition(char sign)
    {
        if (!can_repeat_)
            fail("has nothing to repeat before a repetition");
        out_ += sign;
        if (sign == '{') {
            size_t begin = at_;
            int64_t least, most;

            read_count(least);
            most = least;
            if (at_ < end_ && text_[at_] == ',') {
                at_++;
                if (at_ < end_ && text_[at_] != '}')
                    read_count(most);
            }
            if (at_ >= end_ || text_[at_] != '}' || most < least || most > count_max)
                fail("has a repetition that is not {m}, {m,} or {m,n} with at most 10000");
            at_++;
            out_ += text_.substr(begin, at_ - begin);
        }
        if (at_ < end_ && text_[at_] == '?') /* lazy: matches the same texts */
            at_++;
        can_repeat_ = false;
    }

    void read_one()
    {
        char c = text_[at_];
        ranges set;

        switch (c) {
        case '(':
            at_++;
            if (at_ < end_ && text_[at_] == '?') {
                if (text_.compare(at_, 2, "?:") != 0)
                    fail("has look-around or a named group, which cannot be honoured");
                at_ += 2;
            }
            if (++depth_ > 32)
                fail("has groups nested more than 32 deep");
            out_ += "(";
            can_repeat_ = false;
            return;
        case ')':
            at_++;
            if (depth_-- == 0)
                fail("has a ')' without its '('");
            out_ += ")";
            can_repeat_ = true;
            return;
        case '|':
            at_++;
            out_ += "|";
            can_repeat_ = false;
            return;
        case '^':
        case '$': fail("has ^ or $ inside, which cannot be honoured");
        case '*':
        case '+':
        case '?':
        case '{':
            at_++;
            read_repetition(c);
            return;
        case '[':
            at_++;
            read_class();
            return;
        case '.':
            at_++;
            put(complement({ range('\n', '\n'), range('\r', '\r') }));
            return;
        case '\\':
            at_++;
            if (at_ < end_ && class_escape(text_[at_], set))
                at_++;
            else
                set.emplace_back(0, 0), set.back().first = set.back().second = escaped();
            put(set);
            return;
        default:
            set.emplace_back(0, 0);
            set.back().first = set.back().second = code_point();
            put(set);
        }
    }

    const std::string &text_;
    const std::string &path_;
    size_t room_;
    std::string out_;
    size_t at_ = 1;
    size_t end_ = 0;
    int depth_ = 0;
    bool can_repeat_ = false;
};

/* ---- schemas ---- */

class rewriter
{
  public:
    explicit rewriter(const json &root) : root_(root)
    {
    }

    json rewrite()
    {
        json out = rewrite_node(root_, "#");
        json definitions = json::object();

        /* Definitions that are referred to may refer to more of them. */
        for (size_t i = 0; i < references_.size(); i++) {
            std::string reference = references_[i];

            name_bytes_ = own_name_bytes;
            definitions[name_of(i)] = rewrite_node(resolve(reference, reference), reference);
        }
        for (size_t i = 0; i < moved_.size(); i++)
            definitions[moved_name_of(i)] = moved_[i];
        if (!references_.empty() || !moved_.empty())
            out["$defs"] = definitions;
        return out;
    }

  private:
    /* One deeper as long as it is there. */
    struct level {
        explicit level(size_t &depth) : depth_(depth)
        {
            depth_++;
        }
        ~level()
        {
            depth_--;
        }
        level(const level &) = delete;
        level &operator=(const level &) = delete;
        size_t &depth_;
    };

    static bool is_annotation(const std::string &key)
    {
        static const std::set<std::string> known = { "$schema",   "$comment", "title",       "description",
                                                     "default",   "examples", "readOnly",    "deprecated",
                                                     "writeOnly", "$defs",    "definitions", "nullable" };

        return known.count(key) > 0 || key.compare(0, 2, "x-") == 0; /* "nullable": see rewrite_node */
    }

    /* OpenAPI's word for "or null". */
    static bool is_nullable(const json &schema, const std::string &path)
    {
        if (!schema.is_object() || !schema.contains("nullable"))
            return false;
        if (!schema.at("nullable").is_boolean())
            refuse(path, "'nullable' must be true or false");
        return schema.at("nullable").get<bool>();
    }

    /* Keywords that are read below; all others are refused. */
    static void check_keywords(const json &schema, const std::string &path)
    {
        static const std::set<std::string> known = { "$ref",
                                                     "anyOf",
                                                     "oneOf",
                                                     "allOf",
                                                     "const",
                                                     "enum",
                                                     "type",
                                                     "properties",
                                                     "required",
                                                     "additionalProperties",
                                                     "items",
                                                     "prefixItems",
                                                     "minItems",
                                                     "maxItems",
                                                     "uniqueItems",
                                                     "pattern",
                                                     "format",
                                                     "minLength",
                                                     "maxLength",
                                                     "minimum",
                                                     "maximum",
                                                     "exclusiveMinimum",
                                                     "exclusiveMaximum" };

        for (const auto &entry : schema.items()) {
            if (is_annotation(entry.key()) || known.count(entry.key()) > 0)
                continue;
            if ((entry.key() == "$id" || entry.key() == "id") && path == "#")
                continue;
            refuse(path, "the keyword " + quoted(entry.key()) + " cannot be honoured; leave it out");
        }
    }

    /* Nothing but annotations and the keywords given. */
    static void check_alone(const json &schema, const std::string &path, const std::string &what,
                            const std::set<std::string> &with = {})
    {
        for (const auto &entry : schema.items())
            if (entry.key() != what && !is_annotation(entry.key()) && with.count(entry.key()) == 0 &&
                entry.key() != "$id" && entry.key() != "id")
                refuse(path, quoted(entry.key()) + " next to " + quoted(what) + " cannot be honoured");
    }

    static std::string name_of(size_t i)
    {
        return "hthr" + std::to_string(i);
    }

    static std::string moved_name_of(size_t i)
    {
        return "hthp" + std::to_string(i);
    }

    const json &resolve(const std::string &reference, const std::string &path) const
    {
        auto known = resolved_.find(reference);
        const json *target = &root_;
        size_t begin = 2;

        if (known != resolved_.end())
            return *known->second;

        if (reference.compare(0, 2, "#/") != 0 || reference.size() > 1024)
            refuse(path, "the reference " + quoted(reference) + " is not one into this schema, '#/...'");
        while (begin <= reference.size()) {
            size_t end = std::min(reference.find('/', begin), reference.size());
            std::string name = reference.substr(begin, end - begin);
            size_t at;

            while ((at = name.find("~1")) != std::string::npos)
                name.replace(at, 2, "/");
            while ((at = name.find("~0")) != std::string::npos)
                name.replace(at, 2, "~");
            if (target->is_object() && target->contains(name))
                target = &target->at(name);
            else if (target->is_array() && !name.empty() && name.size() < 6 &&
                     name.find_first_not_of("0123456789") == std::string::npos && std::stoul(name) < target->size())
                target = &target->at((size_t)std::stoul(name));
            else
                refuse(path, "there is nothing at " + quoted(reference));
            begin = end + 1;
        }
        resolved_[reference] = target;
        return *target;
    }

    /* The schema itself, or what it refers to. */
    const json &followed(const json &schema, const std::string &path) const
    {
        const json *at = &schema;

        for (int i = 0; i < 32; i++) {
            if (!at->is_object() || !at->contains("$ref"))
                return *at;
            if (!at->at("$ref").is_string())
                refuse(path, "'$ref' must be a string");
            at = &resolve(at->at("$ref").get<std::string>(), path);
        }
        refuse(path, "references go round in a circle");
    }

    static std::string type_of(const json &value)
    {
        return value.is_null()           ? "null"
             : value.is_boolean()        ? "boolean"
             : value.is_number_integer() ? "integer"
             : value.is_number()         ? "number"
             : value.is_string()         ? "string"
             : value.is_array()          ? "array"
                                         : "object";
    }

    static std::set<std::string> types_of(const json &schema, const std::string &path)
    {
        std::set<std::string> types;

        if (schema.contains("type")) {
            const json &type = schema.at("type");

            if (type.is_string())
                types.insert(type.get<std::string>());
            else if (type.is_array())
                for (const auto &one : type) {
                    if (!one.is_string())
                        refuse(path, "'type' must be a string or a list of strings");
                    types.insert(one.get<std::string>());
                }
            if (types.empty())
                refuse(path, "'type' must be a string or a list of strings");
        }
        for (const std::string &one : types)
            if (one != "null" && one != "boolean" && one != "integer" && one != "number" && one != "string" &&
                one != "array" && one != "object")
                refuse(path, "there is no type " + quoted(one));
        return types;
    }

    static void check_value(const json &value, const std::set<std::string> &types, const std::string &path)
    {
        std::string type = type_of(value);

        if (!types.empty() && types.count(type) == 0 && !(type == "integer" && types.count("number") > 0))
            refuse(path, "a value of 'const' or 'enum' is not of the type given");
    }

    /* ---- do two alternatives of oneOf overlap? ---- */

    /* What an alternative may be, as far as it can be told. */
    struct alternative {
        std::set<std::string> kinds;
        std::set<std::string> values;                      /* as texts; empty: not known */
        std::map<std::string, std::set<std::string>> tags; /* values of properties that it must have */
    };

    void compare(size_t n, const std::string &path)
    {
        n_compared_ += n;
        if (n_compared_ > comparisons_max)
            refuse(path, "it would take too long to tell the alternatives of 'oneOf' apart; use 'anyOf'");
    }

    /* The values that a schema allows. */
    std::set<std::string> values_of(const json &given, const std::string &path)
    {
        const json &schema = followed(given, path);
        std::set<std::string> values;

        if (!schema.is_object())
            return values;
        if (schema.contains("const")) {
            compare(1 + json_bytes(schema.at("const")) / 16, path);
            values.insert(schema.at("const").dump());
        } else if (schema.contains("enum") && schema.at("enum").is_array()) {
            compare(1 + json_bytes(schema.at("enum")) / 16, path);
            for (const auto &value : schema.at("enum"))
                values.insert(value.dump());
        }
        return values;
    }

    std::set<std::string> kinds_of(const json &given, const std::string &path) const
    {
        const json &schema = followed(given, path);
        std::set<std::string> kinds;

        if (!schema.is_object())
            return kinds;
        kinds = types_of(schema, path);
        if (kinds.empty() && schema.contains("const"))
            kinds.insert(type_of(schema.at("const")));
        else if (kinds.empty() && schema.contains("enum") && schema.at("enum").is_array())
            for (const auto &value : schema.at("enum"))
                kinds.insert(type_of(value));
        else if (kinds.empty() && schema.contains("properties"))
            kinds.insert("object");
        if (kinds.count("number") > 0)
            kinds.insert("integer");
        if (is_nullable(given, path) || is_nullable(schema, path))
            kinds.insert("null");
        return kinds;
    }

    alternative alternative_of(const json &given, const std::string &path)
    {
        const json &schema = followed(given, path);
        alternative out{ kinds_of(given, path), values_of(given, path), {} };
        std::map<std::string, const json *> properties;

        if (!schema.is_object() || !schema.contains("properties") || !schema.at("properties").is_object() ||
            !schema.contains("required") || !schema.at("required").is_array())
            return out;
        compare(schema.at("properties").size() + schema.at("required").size(), path);
        for (const auto &[name, value] : schema.at("properties").items())
            properties[name] = &value;
        for (const auto &name : schema.at("required")) {
            auto property = name.is_string() ? properties.find(name.get<std::string>()) : properties.end();
            std::set<std::string> values;

            if (property != properties.end())
                values = values_of(*property->second, path);
            if (!values.empty())
                out.tags[property->first] = values;
        }
        return out;
    }

    bool are_apart(const std::set<std::string> &a, const std::set<std::string> &b, const std::string &path)
    {
        if (a.empty() || b.empty())
            return false;
        compare(std::min(a.size(), b.size()), path);
        for (const std::string &one : a.size() < b.size() ? a : b)
            if ((a.size() < b.size() ? b : a).count(one) > 0)
                return false;
        return true;
    }

    /* Does a property that both must have tell them apart? */
    bool are_told_apart(const alternative &a, const alternative &b, const std::string &path)
    {
        compare(a.tags.size(), path);
        for (const auto &[name, values] : a.tags) {
            auto other = b.tags.find(name);

            if (other != b.tags.end() && are_apart(values, other->second, path))
                return true;
        }
        return false;
    }

    void check_one_of(const json &given, const std::string &path)
    {
        std::vector<alternative> alternatives;

        if (given.size() > 64)
            refuse(path, "'oneOf' has more than 64 alternatives");
        for (const auto &one : given)
            alternatives.push_back(alternative_of(one, path));
        for (size_t i = 0; i < alternatives.size(); i++)
            for (size_t j = 0; j < i; j++) {
                const alternative &a = alternatives[i], &b = alternatives[j];

                if (!are_apart(a.kinds, b.kinds, path) && !are_apart(a.values, b.values, path) &&
                    !are_told_apart(a, b, path))
                    refuse(path, "'oneOf' cannot be honoured where alternatives may overlap; use 'anyOf'");
            }
    }

    /* ---- the kinds of schema ---- */

    json rewrite_alternatives(const json &schema, const std::string &key, const std::string &path)
    {
        const json &alternatives = schema.at(key);
        json out = json::array();
        json any = json::object();

        check_alone(schema, path, key);
        if (!alternatives.is_array() || alternatives.empty())
            refuse(path, quoted(key) + " must be a list of schemas");
        if (key == "oneOf")
            check_one_of(alternatives, path);
        for (size_t i = 0; i < alternatives.size(); i++)
            out.push_back(rewrite_node(alternatives.at(i), below(path, key, std::to_string(i))));
        any["anyOf"] = out;
        return any;
    }

    /* A part of allOf is copied. */
    void merge(const json &part, const std::string &path)
    {
        merged_bytes_ += json_bytes(part);
        if (merged_bytes_ > merged_bytes_max)
            refuse(path, "the parts of 'allOf', all of them together, are larger than 4 MiB");
    }

    /* allOf of objects: one object with all their properties. */
    json rewrite_all_of(const json &schema, const std::string &path)
    {
        const json &parts = schema.at("allOf");
        json merged = json::object();
        json properties = json::object();
        json required = json::array();
        std::set<std::string> names;

        check_alone(schema, path, "allOf", { "type" });
        if (!parts.is_array() || parts.empty())
            refuse(path, "'allOf' must be a list of schemas");
        if (parts.size() == 1 && !schema.contains("type"))
            return rewrite_node(parts.at((size_t)0), path + "/allOf/0");
        if (schema.contains("type") && types_of(schema, path) != std::set<std::string>{ "object" })
            refuse(path, "'allOf' can be honoured for objects only");
        for (size_t i = 0; i < parts.size(); i++) {
            const json &part = followed(parts.at(i), path);

            if (!part.is_object() || !part.contains("properties") || !part.at("properties").is_object())
                refuse(path, "'allOf' can be honoured only where every part has 'properties'");
            check_keywords(part, path + "/allOf/" + std::to_string(i));
            check_alone(part, path + "/allOf/" + std::to_string(i), "properties", { "type", "required" });
            if (part.contains("type") && types_of(part, path) != std::set<std::string>{ "object" })
                refuse(path, "'allOf' can be honoured for objects only");
            for (const auto &entry : part.at("properties").items()) {
                if (!names.insert(entry.key()).second)
                    refuse(path, "two parts of 'allOf' have the property " + quoted(entry.key()));
                if (names.size() > properties_max)
                    refuse(path, "an object has more than 500 properties");
                merge(entry.value(), path);
                properties[entry.key()] = entry.value();
            }
            if (part.contains("required") && part.at("required").is_array()) {
                merge(part.at("required"), path);
                for (const auto &name : part.at("required"))
                    required.push_back(name);
            }
        }
        merged["type"] = "object";
        merged["properties"] = properties;
        merged["required"] = required;
        return rewrite_node(merged, path);
    }

    static int64_t count_of(const json &schema, const std::string &key, int64_t fallback, const std::string &path)
    {
        if (!schema.contains(key))
            return fallback;
        const json &value = schema.at(key);

        if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > (double)count_max)
            refuse(path, quoted(key) + " must be a whole number, 0 to " + std::to_string(count_max));
        return value.get<int64_t>();
    }

    /* May it have rules whose names begin with its own? */
    static bool has_parts(const json &schema)
    {
        if (!schema.is_object())
            return false;
        for (const char *key :
             { "properties", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "nullable" })
            if (schema.contains(key))
                return true;
        return false;
    }

    /*
     * The converter names rules by the path to them, with a dash for what is no letter and no digit. Where that becomes
     * long, or may be another's, the property's schema moves to a place of its own.
     */
    json rewrite_property(const json &schema, const std::string &name, const std::string &path)
    {
        bool is_plain = std::all_of(name.begin(), name.end(),
                                    [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
        size_t outer = name_bytes_;
        bool moves = (!is_plain || outer + name.size() > path_bytes_max) && has_parts(schema);
        json out;

        name_bytes_ = moves ? own_name_bytes : outer + 1 + name.size();
        out = rewrite_node(schema, path);
        name_bytes_ = outer;
        if (!moves)
            return out;
        moved_.push_back(out);
        out = json::object();
        out["$ref"] = "#/$defs/" + moved_name_of(moved_.size() - 1);
        return out;
    }

    json rewrite_object(const json &schema, const std::string &path)
    {
        json out = json::object();
        json properties = json::object();
        std::set<std::string> required, names_given;
        bool has_properties = schema.contains("properties");
        bool has_more = schema.contains("additionalProperties") && !(schema.at("additionalProperties").is_boolean() &&
                                                                     !schema.at("additionalProperties").get<bool>());
        size_t n_optional;

        out["type"] = "object";
        if (has_properties && !schema.at("properties").is_object())
            refuse(path, "'properties' must be an object");
        if (has_properties && schema.at("properties").size() > properties_max)
            refuse(path, "an object has more than 500 properties");
        if (has_properties)
            for (const auto &entry : schema.at("properties").items())
                names_given.insert(entry.key());
        if (schema.contains("required")) {
            json names = json::array();

            if (!schema.at("required").is_array())
                refuse(path, "'required' must be a list of names");
            for (const auto &name : schema.at("required")) {
                if (!name.is_string())
                    refuse(path, "'required' must be a list of names");
                if (names_given.count(name.get<std::string>()) == 0)
                    refuse(path, "the required " + quoted(name.get<std::string>()) + " is not among 'properties'");
                if (required.insert(name.get<std::string>()).second)
                    names.push_back(name);
            }
            out["required"] = names;
        }
        if (schema.contains("additionalProperties")) {
            const json &more = schema.at("additionalProperties");

            if (more.is_boolean())
                out["additionalProperties"] = more;
            else
                out["additionalProperties"] = rewrite_node(more, path + "/additionalProperties");
        }
        if (!has_properties)
            return out;
        for (const auto &entry : schema.at("properties").items()) {
            const std::string &name = entry.key();

            if (name.size() > name_bytes_max)
                refuse(path, "the name of a property is longer than 256 bytes");
            if (name == "*")
                refuse(path, "a property cannot be called '*'");
            if (has_more && (name.size() > beside_more_bytes_max || name.find_first_of("]\\^\"") != std::string::npos))
                refuse(path, "'additionalProperties' cannot be honoured next to the property " + quoted(name) +
                                 ", which is too long or has one of ] \\ ^ \"");
            properties[name] = rewrite_property(entry.value(), name, below(path, "properties", name));
        }
        n_optional = schema.at("properties").size() - required.size();
        if (n_optional > optional_max)
            refuse(path, "an object has more than 200 properties that are not required");
        out["properties"] = properties;
        return out;
    }

    json rewrite_array(const json &schema, const std::string &path)
    {
        json out = json::object();
        int64_t least = count_of(schema, "minItems", 0, path);
        int64_t most = count_of(schema, "maxItems", -1, path);
        bool has_list = schema.contains("items") && schema.at("items").is_array();

        out["type"] = "array";
        if (schema.contains("uniqueItems") &&
            !(schema.at("uniqueItems").is_boolean() && !schema.at("uniqueItems").get<bool>()))
            refuse(path, "'uniqueItems' cannot be honoured");
        if (most >= 0 && most < least)
            refuse(path, "'maxItems' is less than 'minItems'");
        if (schema.contains("items") && schema.contains("prefixItems"))
            refuse(path, "'items' next to 'prefixItems' cannot be honoured");
        if (has_list || schema.contains("prefixItems")) {
            const json &given = schema.at(has_list ? "items" : "prefixItems");
            json items = json::array();

            if (!given.is_array() || given.empty())
                refuse(path, "'prefixItems' must be a list of schemas");
            if (least > (int64_t)given.size() || (most >= 0 && most < (int64_t)given.size()))
                refuse(path,
                       "a list of items has exactly as many as are given; 'minItems' or 'maxItems' says otherwise");
            for (size_t i = 0; i < given.size(); i++)
                items.push_back(rewrite_node(given.at(i), below(path, "prefixItems", std::to_string(i))));
            out["prefixItems"] = items;
            return out;
        }
        if (schema.contains("items"))
            out["items"] = rewrite_node(schema.at("items"), path + "/items");
        if (least > 0)
            out["minItems"] = least;
        if (most >= 0)
            out["maxItems"] = most;
        return out;
    }

    /* A pattern as the converter reads it. */
    std::string written(const std::string &pattern, const std::string &path)
    {
        std::string out = pattern_reader(pattern, path, pattern_bytes_max - pattern_bytes_).rewrite();

        pattern_bytes_ = std::min(pattern_bytes_ + out.size(), pattern_bytes_max);
        return out;
    }

    json rewrite_string(const json &schema, const std::string &path)
    {
        json out = json::object();
        int64_t least = count_of(schema, "minLength", 0, path);
        int64_t most = count_of(schema, "maxLength", -1, path);
        bool has_length = least > 0 || most >= 0;

        out["type"] = "string";
        if (most >= 0 && most < least)
            refuse(path, "'maxLength' is less than 'minLength'");
        if (schema.contains("pattern") + schema.contains("format") + has_length > 1)
            refuse(path, "of 'pattern', 'format' and a length only one can be honoured");
        if (schema.contains("pattern")) {
            std::string pattern;

            if (!schema.at("pattern").is_string())
                refuse(path, "'pattern' must be a string");
            pattern = schema.at("pattern").get<std::string>();
            out["pattern"] = written(pattern, path);
        }
        if (schema.contains("format")) {
            static const std::set<std::string> known = { "date", "time", "date-time", "uuid" };
            std::string format =
                schema.at("format").is_string() ? schema.at("format").get<std::string>() : std::string();
            std::string pattern = format_pattern(format);

            if (known.count(format) > 0)
                out["format"] = format;
            else if (pattern.empty())
                refuse(path, "a 'format' other than date, time, date-time, duration, email, hostname, ipv4, ipv6, uri "
                             "and uuid cannot be honoured");
            else
                out["pattern"] = written(pattern, path);
        }
        if (least > 0)
            out["minLength"] = least;
        if (most >= 0)
            out["maxLength"] = most;
        return out;
    }

    /*
     * A bound of whole numbers. False: none is given, or one that lies beyond 64 bits on the side where it forbids
     * nothing that the grammar could write.
     */
    static bool bound_of(const json &schema, const char *key, const char *exclusive, bool is_least, int64_t &bound,
                         const std::string &path)
    {
        bool is_exclusive = schema.contains(exclusive);
        double value;

        if (schema.contains(key) && is_exclusive)
            refuse(path, quoted(key) + " next to " + quoted(exclusive) + " cannot be honoured");
        if (!schema.contains(key) && !is_exclusive)
            return false;
        const json &given = schema.at(is_exclusive ? exclusive : key);

        if (!given.is_number())
            refuse(path, quoted(is_exclusive ? exclusive : key) + " must be a number");
        value = given.get<double>();
        if (value >= 0x1p63 || value < -0x1p63) { /* as a double, 2^63 - 1 is 2^63; as an integer it is not */
            bool is_exact = given.is_number_integer() && value == 0x1p63 && given.get<uint64_t>() <= INT64_MAX;

            if (!is_exact && (value > 0) != is_least)
                return false;
            if (!is_exact)
                refuse(path, quoted(is_exclusive ? exclusive : key) + " is beyond 64 bits, which cannot be honoured");
        }
        if (given.is_number_integer()) {
            bound = given.get<int64_t>();
        } else {
            double whole = is_least ? std::ceil(value) : std::floor(value);

            is_exclusive = is_exclusive && whole == value;
            bound = (int64_t)whole;
        }
        if (is_least ? bound < -bound_max : bound > bound_max)
            return false;
        if (is_least ? bound >= bound_max : bound <= -bound_max)
            refuse(path, quoted(key) + " leaves no whole number of 64 bits");
        bound += is_exclusive ? (is_least ? 1 : -1) : 0;
        return true;
    }

    static json rewrite_integer(const json &schema, const std::string &path)
    {
        json out = json::object();
        int64_t least = 0, most = 0;
        bool has_least = bound_of(schema, "minimum", "exclusiveMinimum", true, least, path);
        bool has_most = bound_of(schema, "maximum", "exclusiveMaximum", false, most, path);

        out["type"] = "integer";
        if (schema.contains("format"))
            refuse(path, "'format' of a number cannot be honoured");
        if (has_least && has_most && most < least)
            refuse(path, "no whole number is between the bounds");
        if (has_least && !has_most && (least > lone_bound_max || least < -lone_bound_max)) {
            has_most = true;
            most = bound_max;
        } else if (has_most && !has_least && (most > lone_bound_max || most < -lone_bound_max)) {
            has_least = true;
            least = -bound_max;
        }
        if (has_least)
            out["minimum"] = least;
        if (has_most)
            out["maximum"] = most;
        return out;
    }

    json rewrite_type(const json &schema, const std::string &type, const std::string &path)
    {
        json out = json::object();

        if (type == "object")
            return rewrite_object(schema, path);
        if (type == "array")
            return rewrite_array(schema, path);
        if (type == "string")
            return rewrite_string(schema, path);
        if (type == "integer")
            return rewrite_integer(schema, path);
        if (type == "number")
            for (const char *key : { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format" })
                if (schema.contains(key))
                    refuse(path, quoted(key) + " of type number cannot be honoured" +
                                     (std::strcmp(key, "format") == 0 ? "" : "; of type integer it can"));
        out["type"] = type;
        return out;
    }

    /* Without a type the keywords tell it. */
    static std::string implied_type(const json &schema, const std::string &path)
    {
        static const std::map<std::string, std::string> families = {
            { "properties", "object" }, { "required", "object" },   { "additionalProperties", "object" },
            { "items", "array" },       { "prefixItems", "array" }, { "minItems", "array" },
            { "maxItems", "array" },    { "uniqueItems", "array" }, { "pattern", "string" },
            { "format", "string" },     { "minLength", "string" },  { "maxLength", "string" },
        };
        std::string implied;

        for (const auto &entry : schema.items()) {
            auto family = families.find(entry.key());

            if (is_annotation(entry.key()) || entry.key() == "$id" || entry.key() == "id")
                continue;
            if (family == families.end() || (!implied.empty() && implied != family->second))
                refuse(path, quoted(entry.key()) + " needs a 'type' next to it");
            implied = family->second;
        }
        return implied;
    }

    json rewrite_node(const json &schema, const std::string &path)
    {
        json out = rewrite_not_null(schema, path);
        json any = json::object(), null = json::object(), alternatives = json::array();

        /* Where values are listed null is one of them, or it is not. */
        if (!is_nullable(schema, path) || schema.contains("const") || schema.contains("enum"))
            return out;
        null["type"] = "null";
        alternatives.push_back(out);
        alternatives.push_back(null);
        any["anyOf"] = alternatives;
        return any;
    }

    json rewrite_not_null(const json &schema, const std::string &path)
    {
        static const std::vector<std::string> choices = { "$ref", "anyOf", "oneOf", "allOf", "const", "enum" };
        std::set<std::string> types;
        json out = json::object();
        json alternatives = json::array();

        level here(depth_);

        if (++n_nodes_ > nodes_max)
            refuse(path, "the schema has more than 4096 subschemas");
        if (depth_ > depth_max)
            refuse(path, "subschemas are nested more than 128 deep; parts of 'allOf' cannot refer to what they are in");
        if (!schema.is_object())
            refuse(path, "a schema must be an object");
        check_keywords(schema, path);
        if (schema.contains("$ref")) {
            check_alone(schema, path, "$ref");
            out["$ref"] = "#/$defs/" + reference(schema.at("$ref"), path);
            return out;
        }
        if (schema.contains("anyOf") || schema.contains("oneOf"))
            return rewrite_alternatives(schema, schema.contains("anyOf") ? "anyOf" : "oneOf", path);
        if (schema.contains("allOf"))
            return rewrite_all_of(schema, path);
        types = types_of(schema, path);
        if (!types.empty() && is_nullable(schema, path) && (schema.contains("const") || schema.contains("enum")))
            types.insert("null");
        if (schema.contains("const")) {
            check_alone(schema, path, "const", { "type" });
            check_value(schema.at("const"), types, path);
            out["const"] = schema.at("const");
            return out;
        }
        if (schema.contains("enum")) {
            check_alone(schema, path, "enum", { "type" });
            if (!schema.at("enum").is_array() || schema.at("enum").empty())
                refuse(path, "'enum' must be a list of values");
            for (const auto &value : schema.at("enum"))
                check_value(value, types, path);
            out["enum"] = schema.at("enum");
            return out;
        }
        if (types.empty()) {
            std::string implied = implied_type(schema, path);

            return implied.empty() ? out : rewrite_type(schema, implied, path);
        }
        if (types.size() == 1)
            return rewrite_type(schema, *types.begin(), path);
        for (const std::string &type : types)
            alternatives.push_back(rewrite_type(schema, type, path));
        out["anyOf"] = alternatives;
        return out;
    }

    /* The name under which a definition will be found. */
    std::string reference(const json &given, const std::string &path)
    {
        std::string text;

        if (!given.is_string())
            refuse(path, "'$ref' must be a string");
        text = given.get<std::string>();
        (void)resolve(text, path);
        auto known = reference_numbers_.emplace(text, references_.size());

        if (known.second)
            references_.push_back(text);
        return name_of(known.first->second);
    }

    const json &root_;
    std::vector<std::string> references_;
    std::map<std::string, size_t> reference_numbers_;
    mutable std::map<std::string, const json *> resolved_;
    std::vector<json> moved_;
    size_t n_nodes_ = 0;
    size_t depth_ = 0;
    size_t name_bytes_ = 0; /* of the rule that a schema will have, about */
    size_t merged_bytes_ = 0;
    size_t pattern_bytes_ = 0;
    size_t n_compared_ = 0;
};

void append_replaced(std::string &out, const std::string &text, const std::string &from, const std::string &to)
{
    size_t begin = 0;

    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
        out.append(text, begin, at - begin);
        out += to;
        begin = at + from.size();
    }
    out.append(text, begin);
}

/*
 * What the converter lets into strings that no string may hold: in keys of additional properties, its classes "not these
 * characters" take quotes' neighbours; and of escapes, a half of a surrogate pair on its own is no character, which many
 * readers refuse.
 */
std::string mended(const std::string &grammar)
{
    static const std::string other = "[^\"", other_safe = "[^\"\\\\\\x7F\\x00-\\x1F";
    static const std::string any = "\"u\" [0-9a-fA-F]{4}";
    static const std::string whole = "\"u\" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})";
    std::string out, line;

    for (size_t begin = 0, end; begin < grammar.size(); begin = end + 1) {
        size_t name_end;

        end = std::min(grammar.find('\n', begin), grammar.size());
        line.assign(grammar, begin, end - begin);
        line += '\n';
        name_end = line.find(" ::= ");
        if (line.substr(0, name_end).find("additional-k") != std::string::npos)
            append_replaced(out, line, other, other_safe);
        else
            append_replaced(out, line, any, whole);
    }
    return out;
}

} /* namespace */

extern "C" {

hearth_status hth_schema_to_grammar(const char *schema, size_t n_bytes, char **grammar_out, size_t *n_out,
                                    hearth_error *err)
{
    try {
        hth_json_bounds bounds = hth_json_measure(schema, n_bytes);
        std::string grammar;

        if (bounds.depth > nesting_max)
            return hth_fail(err, HEARTH_MISUSE, "the schema is nested more than %zu deep", nesting_max);
        if (bounds.n_values > values_max || bounds.n_pairs > pairs_max)
            return hth_fail(err, HEARTH_MISUSE, "the schema has more than %zu values, or an object of too many members",
                            values_max);
        json given = json::parse(std::string(schema, n_bytes));
        json rewritten = rewriter(given).rewrite();

        schema_cost(ms_max).add(rewritten);
        grammar = mended(json_schema_to_grammar(rewritten, true));
        *grammar_out = (char *)std::malloc(grammar.size() + 1);
        if (!*grammar_out)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the grammar of a schema");
        std::memcpy(*grammar_out, grammar.c_str(), grammar.size() + 1);
        *n_out = grammar.size();
        return HEARTH_OK;
    } catch (const std::bad_alloc &) {
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the grammar of a schema");
    } catch (const std::exception &e) {
        std::string why = e.what();

        for (char &c : why)
            if (c == '\n' || c == '\r')
                c = ' ';
        return hth_fail(err, HEARTH_MISUSE, "%s", why.c_str());
    } catch (...) {
        return hth_fail(err, HEARTH_MISUSE, "the schema cannot be converted");
    }
}

} /* extern "C" */

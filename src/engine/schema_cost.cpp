/*
 * schema_cost.cpp - the converter's walk, without its work
 *
 * Times are those of one core of the machine that it was measured on, in nanoseconds, each somewhat above what was found.
 */
#include "engine/schema_cost.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

namespace
{

using json = common_json;

constexpr size_t depth_max = 256;          /* with references; the reader and the converter recurse as deep */
constexpr double rule_ns = 500;            /* a regular expression over its name, a place in a map */
constexpr double rule_byte_ns = 20;        /* of the name */
constexpr double alike_ns = 100;           /* to look at a rule of the same name */
constexpr double look_up_ns = 4;           /* to pass over a member of an object */
constexpr double value_byte_ns = 35;       /* of a value that is written into the grammar */
constexpr double copied_byte_ns = 5;       /* of a schema that is copied */
constexpr double kept_rule_ns = 500;       /* to copy a rule */
constexpr double pattern_byte_ns = 25;     /* read, and written as classes */
constexpr double short_name_ns = 6.5;      /* to copy a name that its object has room for */
constexpr double long_name_ns = 35;        /* another, and for each byte */
constexpr double long_name_byte_ns = 0.15; /* of it */
constexpr size_t short_name_bytes = 15;

/* A name as a part of a rule's name. */
std::string rule_part(const std::string &name)
{
    std::string out;

    for (char c : name)
        if (std::isalnum((unsigned char)c) || c == '-')
            out += c;
        else if (out.empty() || out.back() != '\0')
            out += '\0'; /* what is none of these, however long, becomes one dash */
    return out;
}

struct deeper {
    explicit deeper(size_t &depth) : depth_(depth)
    {
        depth_++;
    }
    ~deeper()
    {
        depth_--;
    }
    deeper(const deeper &) = delete;
    deeper &operator=(const deeper &) = delete;

  private:
    size_t &depth_;
};

} /* namespace */

size_t json_bytes(const json &value)
{
    size_t n = 16;

    if (value.is_string())
        return n + value.get<std::string>().size();
    if (value.is_array())
        for (const auto &one : value)
            n += json_bytes(one);
    else if (value.is_object())
        for (const auto &[name, one] : value.items())
            n += name.size() + json_bytes(one);
    return n;
}

void schema_cost::charge(double ns)
{
    std::string at = "#";

    ns_ += ns;
    if (ns_ <= ns_max_)
        return;
    for (size_t i = 0; i < place_.size() && at.size() < 120; i++)
        at += "/" + place_[i].substr(0, 60);
    throw too_much("the schema takes too long to be compiled (at " + at +
                   "); it has too many properties that are not required, patterns, lists of types or parts of 'allOf'");
}

void schema_cost::rule(double name_bytes)
{
    n_rules_++;
    charge(rule_ns + rule_byte_ns * name_bytes + alike_ns * (n_alike_ - 1));
}

void schema_cost::add(const json &schema)
{
    root_ = &schema;
    references_.clear();
    place_.clear();
    n_alike_ = 1;
    charge(copied_byte_ns * (double)json_bytes(schema));
    visit(schema, 0);
}

const json *schema_cost::target(const json &reference)
{
    std::string text = reference.is_string() ? reference.get<std::string>() : "";
    const json *at = root_;
    size_t begin = 2;

    if (text.compare(0, 2, "#/") != 0)
        return nullptr; /* refused by the reader */
    while (begin <= text.size()) {
        size_t end = std::min(text.find('/', begin), text.size());
        std::string name = text.substr(begin, end - begin);

        charge(100 + look_up_ns * (double)at->size());
        if (at->is_object() && at->contains(name))
            at = &at->at(name);
        else if (at->is_array() && !name.empty() && name.size() < 6 &&
                 name.find_first_not_of("0123456789") == std::string::npos && std::stoul(name) < at->size())
            at = &at->at((size_t)std::stoul(name));
        else
            return nullptr;
        begin = end + 1;
    }
    return at;
}

void schema_cost::visit_reference(const json &reference)
{
    std::string text = reference.is_string() ? reference.get<std::string>() : "";
    const json *to;
    double n_alike = n_alike_;

    if (!references_.insert(text).second)
        return;
    to = target(reference);
    n_alike_ = 1;
    if (to)
        visit(*to, (double)text.size() + 3);
    n_alike_ = n_alike;
}

void schema_cost::visit(const json &schema, double name_bytes)
{
    deeper here(depth_);

    if (depth_ > depth_max)
        throw too_much("the schema is nested too deep, or parts of 'allOf' refer to what they are in");
    charge(500 + 20 * look_up_ns * (double)schema.size());
    rule(name_bytes);
    if (!schema.is_object())
        return;
    if (schema.contains("$ref")) {
        visit_reference(schema.at("$ref"));
        return;
    }
    for (const char *key : { "oneOf", "anyOf" })
        if (schema.contains(key)) {
            if (schema.at(key).is_array())
                for (const auto &one : schema.at(key))
                    visit(one, name_bytes + 12);
            return;
        }
    if (schema.contains("type") && schema.at("type").is_array()) {
        double bytes = (double)json_bytes(schema);

        for (const auto &type : schema.at("type")) {
            charge(copied_byte_ns * bytes);
            rule(name_bytes);
            visit_typed(schema, type.is_string() ? type.get<std::string>() : "", name_bytes + 3);
        }
        return;
    }
    visit_typed(schema,
                schema.contains("type") && schema.at("type").is_string() ? schema.at("type").get<std::string>() : "",
                name_bytes);
}

void schema_cost::visit_typed(const json &schema, const std::string &type, double name_bytes)
{
    bool has_properties = schema.contains("properties") || schema.contains("additionalProperties");
    bool has_all_of = schema.contains("allOf");

    for (const char *key : { "const", "enum" })
        if (schema.contains(key)) {
            charge(value_byte_ns * (double)json_bytes(schema.at(key)));
            return;
        }
    if (has_properties && (type.empty() || type == "object"))
        visit_object(schema, name_bytes);
    else if (has_all_of && (type.empty() || type == "object" || type == "string"))
        visit_all_of(schema.at("allOf"), name_bytes);
    else if (type == "array" || type.empty())
        visit_array(schema, name_bytes);
    if (schema.contains("pattern") && (type == "string" || type.empty()))
        visit_pattern(schema.at("pattern"));
    if (type == "integer")
        visit_integer(schema);
}

void schema_cost::visit_object(const json &schema, double name_bytes)
{
    std::vector<property> properties;
    std::set<std::string> required;
    bool has_more = false;

    if (schema.contains("required") && schema.at("required").is_array())
        for (const auto &name : schema.at("required"))
            if (name.is_string())
                required.insert(name.get<std::string>());
    charge(100 * (double)required.size());
    if (schema.contains("properties") && schema.at("properties").is_object())
        for (const auto &[name, value] : schema.at("properties").items())
            properties.emplace_back(name, &value);
    if (schema.contains("additionalProperties")) {
        const json &more = schema.at("additionalProperties");

        has_more = !more.is_boolean() || more.get<bool>();
        if (more.is_object())
            visit(more, name_bytes + 17);
        rule(name_bytes + 17);
    }
    visit_properties(properties, required, has_more, name_bytes);
}

/* All properties of all parts as those of one object. What is in alternatives is not required. */
void schema_cost::visit_all_of(const json &parts, double name_bytes)
{
    std::vector<const json *> objects;
    std::vector<property> properties;
    std::set<std::string> required;

    if (!parts.is_array())
        return;
    for (const auto &part : parts) {
        bool has_alternatives = part.is_object() && part.contains("anyOf") && part.at("anyOf").is_array();

        if (has_alternatives)
            for (const auto &one : part.at("anyOf"))
                objects.push_back(&one);
        else
            objects.push_back(&part);
        if (part.is_object() && part.contains("$ref"))
            visit_reference(part.at("$ref")); /* the reader goes there, too */
        for (size_t i = has_alternatives ? objects.size() - part.at("anyOf").size() : objects.size() - 1;
             i < objects.size(); i++) {
            const json *object = objects[i];

            if (object->is_object() && object->contains("$ref"))
                object = target(object->at("$ref"));
            if (!object || !object->is_object())
                continue;
            if (object->contains("enum"))
                charge(value_byte_ns * (double)json_bytes(object->at("enum")));
            if (!object->contains("properties") || !object->at("properties").is_object())
                continue;
            for (const auto &[name, value] : object->at("properties").items()) {
                properties.emplace_back(name, &value);
                if (!has_alternatives)
                    required.insert(name);
            }
        }
        charge(look_up_ns * (double)properties.size());
    }
    visit_properties(properties, required, false, name_bytes);
}

void schema_cost::visit_properties(const std::vector<property> &properties, const std::set<std::string> &required,
                                   bool has_more, double name_bytes)
{
    std::map<std::string, double> n_alike;
    double n_optional = has_more ? 1 : 0, optional_bytes = 0, copy_ns = 0, alike = 0, outer = n_alike_;

    charge(look_up_ns * (double)properties.size() * (double)properties.size() / 2);
    for (const auto &[name, value] : properties)
        n_alike[rule_part(name)]++;
    for (const auto &[name, value] : properties) {
        double n = (double)name.size(), n_same = n_alike[rule_part(name)];

        n_alike_ = std::min(outer * n_same, 1e6);
        place_.push_back(name);
        visit(*value, name_bytes + 1 + n);
        rule(name_bytes + 1 + n + 3);
        place_.pop_back();
        if (has_more)
            charge(500 * n); /* for each character of it a name that goes on otherwise */
        if (required.count(name) > 0)
            continue;
        n_optional++;
        optional_bytes += n;
        copy_ns += n <= short_name_bytes ? short_name_ns : long_name_ns + long_name_byte_ns * n;
        alike += n_alike_ - 1;
        n_rules_++;
    }
    n_alike_ = outer;
    if (n_optional < 2)
        return;
    /* For each of them, rules for all that follow it; for each of those, a list of all that follow. */
    charge(n_optional * n_optional / 2 * (rule_ns + rule_byte_ns * (name_bytes + 6 + optional_bytes / n_optional)));
    charge(n_optional * n_optional / 6 * copy_ns);
    charge(n_optional / 4 * alike * alike_ns);
}

void schema_cost::visit_array(const json &schema, double name_bytes)
{
    for (const char *key : { "items", "prefixItems" })
        if (schema.contains(key)) {
            const json &items = schema.at(key);

            if (!items.is_array())
                visit(items, name_bytes + 5);
            else
                for (const auto &item : items)
                    visit(item, name_bytes + 12);
            return;
        }
}

void schema_cost::visit_pattern(const json &pattern)
{
    std::string text = pattern.is_string() ? pattern.get<std::string>() : "";

    charge(kept_rule_ns * n_rules_ + pattern_byte_ns * (double)text.size());
    n_rules_ += (double)std::count(text.begin(), text.end(), '{');
}

/* Bounds are written out digit by digit, for each number of digits. */
void schema_cost::visit_integer(const json &schema)
{
    for (const char *key : { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" })
        if (schema.contains(key) && schema.at(key).is_number()) {
            double n_digits = std::log10(std::fabs(schema.at(key).get<double>()) + 1) + 1;

            charge(300 * n_digits * n_digits);
        }
}

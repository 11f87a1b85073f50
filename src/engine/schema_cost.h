/*
 * schema_cost.h - how long the engine's converter would take for a tool's schema, found out before it is asked
 *
 * The converter (json_schema_to_grammar in llama-common, v0.5.0) and its reader of schemas take time without bound: lists
 * of types and parts of allOf multiply with each level, allOf may go round in a circle until the stack is used up,
 * properties that are not required cost the cube of their number, patterns a copy of all rules each, names the square of
 * those that look alike, and the name of a rule is as long as the path to it. So its walk is done here first, step by step
 * and without its work, adding up what that was measured to cost; the walk ends where it is too much.
 *
 * C++, for the engine's files only.
 */
#ifndef HTH_ENGINE_SCHEMA_COST_H
#define HTH_ENGINE_SCHEMA_COST_H

#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <json.h>

/* How many bytes a value takes in memory, about. */
size_t json_bytes(const common_json &value);

class schema_cost
{
  public:
    struct too_much : std::runtime_error {
        using std::runtime_error::runtime_error;
    };

    explicit schema_cost(double ms_max) : ns_max_(ms_max * 1e6)
    {
    }

    /* Add a schema to those of one grammar. Throws too_much, with a sentence that names the place. */
    void add(const common_json &schema);

  private:
    using property = std::pair<std::string, const common_json *>;

    void charge(double ns);
    void rule(double name_bytes);
    void visit(const common_json &schema, double name_bytes);
    void visit_typed(const common_json &schema, const std::string &type, double name_bytes);
    void visit_object(const common_json &schema, double name_bytes);
    void visit_all_of(const common_json &parts, double name_bytes);
    void visit_properties(const std::vector<property> &properties, const std::set<std::string> &required, bool has_more,
                          double name_bytes);
    void visit_reference(const common_json &reference);
    void visit_array(const common_json &schema, double name_bytes);
    void visit_pattern(const common_json &pattern);
    void visit_integer(const common_json &schema);
    const common_json *target(const common_json &reference);

    double ns_ = 0;
    double ns_max_;
    double n_rules_ = 16;
    double n_alike_ = 1; /* rules that may have one name, where the walk is */
    size_t depth_ = 0;
    std::vector<std::string> place_; /* properties on the way */
    const common_json *root_ = nullptr;
    std::set<std::string> references_; /* of this schema, that were gone along */
};

#endif

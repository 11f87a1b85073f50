/*
 * gbnf_builder.h - write the tables of a grammar
 *
 * Rules are numbers. The elements of an alternative are pushed onto a stack; when the alternative ends, they move to
 * the tables. Alternatives of another rule may be written in between, above them on the stack. status keeps the first
 * failure. After it all functions do nothing, so the caller need not check the status after each call.
 *
 * Only for the readers of grammars and schemas. One thread.
 */
#ifndef HTH_GRAMMAR_GBNF_BUILDER_H
#define HTH_GRAMMAR_GBNF_BUILDER_H

#include "grammar/gbnf.h"

#define HTH_GBNF_NONE UINT32_MAX

typedef struct hth_gbnf_builder {
    hth_gbnf *grammar;
    size_t elements_capacity, alternatives_capacity, rules_capacity, classes_capacity, ranges_capacity;
    uint32_t *last_alternative; /* of each rule, [rules_capacity] */
    size_t last_capacity;
    hth_gbnf_element *stack; /* elements of unfinished alternatives */
    size_t n_stack, stack_capacity;
    uint32_t line; /* of the text that is read, for messages; 0: none */
    hearth_status status;
    hearth_error *err;
} hth_gbnf_builder;

/* Begin an empty grammar. The caller must end the builder, even after a failure. HEARTH_NO_MEMORY. */
hearth_status hth_gbnf_builder_init(hth_gbnf_builder *builder, hearth_error *err);
/* End the builder and return its status. With HEARTH_OK, *out is the grammar, with one reference. */
hearth_status hth_gbnf_builder_end(hth_gbnf_builder *builder, hth_gbnf **out);

/* Make room for one more element in an array of at most limit. False, with the builder failed, if there is none. */
bool hth_gbnf_reserve(hth_gbnf_builder *builder, void **array, size_t n, size_t *capacity, size_t size, size_t limit,
                      const char *what);

/* Push an element onto the stack. */
void hth_gbnf_push(hth_gbnf_builder *builder, hth_gbnf_type type, uint32_t value);
/* A rule without alternatives; 0 after a failure. */
uint32_t hth_gbnf_add_rule(hth_gbnf_builder *builder);
/* End an alternative of rule. Its elements are those on the stack from base on. */
void hth_gbnf_end_alternative(hth_gbnf_builder *builder, uint32_t rule, size_t base);
/* A rule "item rest |". rest HTH_GBNF_NONE: no rest. self: the rule itself is the rest. */
uint32_t hth_gbnf_add_optional(hth_gbnf_builder *builder, hth_gbnf_element item, uint32_t rest, bool self);

/* Copy another grammar's rules. Returns the number of its root here. */
uint32_t hth_gbnf_add_grammar(hth_gbnf_builder *builder, const hth_gbnf *from);

/* Add a range. A class consists of the ranges that were added since the grammar's n_ranges was begin. */
void hth_gbnf_add_range(hth_gbnf_builder *builder, uint32_t first, uint32_t last);
/* Replace the ranges from begin on by all other characters. */
void hth_gbnf_negate_ranges(hth_gbnf_builder *builder, size_t begin);
/* Make a class of the ranges from begin on, or reuse an equal class. */
uint32_t hth_gbnf_end_class(hth_gbnf_builder *builder, size_t begin);

#endif

/*
 * gbnf_builder.h - the tables of a grammar while they are written
 *
 * Rules are numbers. The elements of an alternative are pushed onto a stack and moved to the tables when it ends; those
 * of another rule may be written in between, above them. The first failure is kept in status, and everything after it
 * does nothing, so that it is enough to look at the status now and then.
 *
 * For the readers of grammars and schemas only. One thread.
 */
#ifndef HTH_ENGINE_GBNF_BUILDER_H
#define HTH_ENGINE_GBNF_BUILDER_H

#include "engine/gbnf.h"

#define HTH_GBNF_NONE UINT32_MAX
#define HTH_GBNF_LAST_CODE_POINT 0x10FFFFu

typedef struct hth_gbnf_builder {
    hth_gbnf *grammar;
    size_t elements_capacity, alternatives_capacity, rules_capacity, classes_capacity, ranges_capacity;
    uint32_t *last_alternative; /* of each rule, [rules_capacity] */
    size_t last_capacity;
    hth_gbnf_element *stack; /* elements of alternatives that are being written */
    size_t n_stack, stack_capacity;
    uint32_t line; /* of the text that is read, for messages; 0: none */
    hearth_status status;
    hearth_error *err;
} hth_gbnf_builder;

/* Begin an empty grammar. Whatever it returns, the builder is to be ended. HEARTH_NO_MEMORY. */
hearth_status hth_gbnf_builder_init(hth_gbnf_builder *builder, hearth_error *err);
/* End it. *out is the grammar, with one reference, where the status is HEARTH_OK. Returns the status. */
hearth_status hth_gbnf_builder_end(hth_gbnf_builder *builder, hth_gbnf **out);

/* Room for one more in an array of at most limit; false, with the builder failed, when there is none. */
bool hth_gbnf_reserve(hth_gbnf_builder *builder, void **array, size_t n, size_t *capacity, size_t size, size_t limit,
                      const char *what);

void hth_gbnf_push(hth_gbnf_builder *builder, hth_gbnf_type type, uint32_t value);
/* A rule without alternatives; 0 after a failure. */
uint32_t hth_gbnf_add_rule(hth_gbnf_builder *builder);
/* End an alternative of rule: the elements on the stack from base on. */
void hth_gbnf_end_alternative(hth_gbnf_builder *builder, uint32_t rule, size_t base);
/* A rule "item rest |", without rest where it is HTH_GBNF_NONE, and with itself as rest where self is set. */
uint32_t hth_gbnf_add_optional(hth_gbnf_builder *builder, hth_gbnf_element item, uint32_t rest, bool self);

/* Copy another grammar's rules; its root's number here. */
uint32_t hth_gbnf_add_grammar(hth_gbnf_builder *builder, const hth_gbnf *from);

/* A class is the ranges of the grammar that were added since its n_ranges was begin. */
void hth_gbnf_add_range(hth_gbnf_builder *builder, uint32_t first, uint32_t last);
/* Sort the ranges from begin on and join those that touch. */
void hth_gbnf_join_ranges(hth_gbnf *grammar, size_t begin);
/* Make a class of the joined ranges from begin on; one that is there already is used again. */
uint32_t hth_gbnf_end_class(hth_gbnf_builder *builder, size_t begin);

#endif

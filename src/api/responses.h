/*
 * responses.h - what a request to /v1/responses says that others do not
 *
 * A client of this API gives its tools in namespaces and with free text as their input, and its conversation as items. The
 * model is offered functions of one list; a call is told to the client as it knows the tool.
 */
#ifndef HTH_API_RESPONSES_H
#define HTH_API_RESPONSES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A tool by both of its names. */
typedef struct hth_api_responses_tool {
    const char *offered;    /* to the model: letters, digits, '_' and '-' */
    const char *name;       /* as the client calls it in its namespace */
    const char *name_space; /* NULL: none */
    bool is_custom;         /* its input is a text: offered as a function of the one argument "input" */
} hth_api_responses_tool;

typedef struct hth_api_responses {
    const hth_api_responses_tool *tools; /* [n_tools], all that are offered or might have been */
    size_t n_tools;
    bool has_summary;   /* reasoning is told as its own summary, otherwise as it is */
    bool has_encrypted; /* and once more as encrypted_content, which clients send back unread */
    bool wants_logprobs;
    bool in_background; /* its client does not wait for its end */
    bool is_kept;       /* store: to be asked for again, or gone on from */
} hth_api_responses;

/* What encrypted_content begins with: the reasoning's text follows, in plain. */
#define HTH_API_RESPONSES_REASONING "hearth:"

/* The argument of a tool whose input is a text. */
#define HTH_API_RESPONSES_INPUT "input"

/* The tool that is offered by this name; NULL: none is. */
const hth_api_responses_tool *hth_api_responses_tool_find(const hth_api_responses *responses, const char *offered);

#endif

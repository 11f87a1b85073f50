/*
 * responses.h - the parts of a request that only /v1/responses has
 *
 * A client of this API has tools in namespaces, tools whose input is free text, and a conversation made of items. The
 * model receives one list of functions; the client receives each call under the tool's own name.
 */
#ifndef HTH_API_RESPONSES_H
#define HTH_API_RESPONSES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A tool with both of its names. */
typedef struct hth_api_responses_tool {
    const char *offered;    /* the name for the model: letters, digits, '_' and '-' */
    const char *name;       /* the client's name within its namespace */
    const char *name_space; /* NULL: none */
    bool is_custom;         /* its input is a text; the model sees a function with the one argument "input" */
} hth_api_responses_tool;

typedef struct hth_api_responses {
    const hth_api_responses_tool *tools; /* [n_tools], including those that tool_choice excludes */
    size_t n_tools;
    bool has_summary;   /* reasoning appears as its summary; otherwise as itself */
    bool has_encrypted; /* reasoning also appears as encrypted_content, which clients return unread */
    bool wants_logprobs;
    bool in_background; /* the client does not wait for the end */
    bool is_kept;       /* store: clients may fetch the response again, or continue it */
} hth_api_responses;

/* The beginning of encrypted_content; the plain text of the reasoning follows. */
#define HTH_API_RESPONSES_REASONING "hearth:"

/* The argument of a tool whose input is a text. */
#define HTH_API_RESPONSES_INPUT "input"

/* The type of an input item that adds tools. */
#define HTH_API_RESPONSES_MORE_TOOLS "additional_tools"

/* The tool that is offered to the model under this name; NULL: none. */
const hth_api_responses_tool *hth_api_responses_tool_find(const hth_api_responses *responses, const char *offered);

#endif

/*
 * openai_completion_request.c - /v1/completions
 */
#include "api/parse.h"
#include "dialects/kinds.h"

void hth_api_parse_completion(hth_api_parse *parse)
{
    static const char *const known[] = { HTH_API_OPENAI_FIELDS,
                                         "prompt",
                                         "max_tokens",
                                         "n_predict",
                                         "echo",
                                         "logprobs",
                                         "best_of",
                                         "user",
                                         "suffix",
                                         NULL };
    hth_api_request *request = parse->request;
    json_int_t n_tokens = request->options.n_predict; /* OpenAI's default of 16 would truncate most replies */
    uint32_t best_of;

    hth_fields_rest(&parse->body, known);
    hth_api_parse_openai_common(parse);
    hth_fields_bool(&parse->body, "echo", &request->echo);
    hth_fields_integer(&parse->body, "n_predict", -2, INT32_MAX, &n_tokens);
    hth_fields_integer(&parse->body, "max_tokens", -2, INT32_MAX, &n_tokens);
    hth_api_set_length(parse, n_tokens);
    request->options.echo = request->echo;
    request->options.logprobs = hth_fields_has(&parse->body, "logprobs");
    hth_fields_u32(&parse->body, "logprobs", 0, 5, &request->options.n_top_logprobs);
    request->options.prompt_logprobs = request->options.logprobs && request->echo;
    if (request->options.prompt_logprobs && (request->stream || request->options.n > 1))
        hth_fields_fail(
            &parse->body, HTH_API_UNSUPPORTED, "logprobs",
            "together with 'echo' is not supported in a stream, nor with 'n' above 1; leave one of them out");
    hth_fields_string(&parse->body, "suffix", HTH_API_TEXT_BYTES_MAX, &request->suffix);
    if (request->suffix && !*request->suffix)
        request->suffix = NULL;
    best_of = request->options.n;
    hth_fields_u32(&parse->body, "best_of", 1, HTH_API_REPLIES_MAX, &best_of);
    if (best_of != request->options.n)
        hth_fields_pass_over(&parse->body, "best_of");
    hth_api_parse_prompts(parse, /* mixed= */ false);
}

#include "api/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"

/* ---- prompts ---- */

hth_api_prompt *hth_api_prompt_new(void)
{
    hth_api_prompt *prompt = calloc(1, sizeof(*prompt));

    if (prompt)
        atomic_init(&prompt->references, 1);
    return prompt;
}

void hth_api_prompt_unref(hth_api_prompt *prompt)
{
    if (!prompt || atomic_fetch_sub_explicit(&prompt->references, 1, memory_order_acq_rel) != 1)
        return;
    hearth_chat_prompt_free(prompt->chat);
    hearth_chat_parser_free(prompt->parser);
    hth_prompt_text_unref(prompt->text);
    free(prompt->tokens);
    free(prompt);
}

static size_t bytes_of(const hth_api_prompt *prompt)
{
    const hearth_chat_prompt *chat = prompt->chat;
    size_t n =
        sizeof(*prompt) + prompt->n_tokens * sizeof(*prompt->tokens) + (prompt->text ? prompt->text->n_bytes : 0);

    if (!chat)
        return n;
    n += sizeof(*chat) + chat->n_bytes + (chat->grammar ? strlen(chat->grammar) : 0);
    n += 3 * strlen(chat->parser);                               /* as text and parsed */
    return n + chat->n_triggers * sizeof(*chat->triggers) + 512; /* the rest is small */
}

/* ---- keys ---- */

/* Add a text with its length, so that no two lists of texts give the same bytes. NULL differs from "". */
static void add_text(hth_sha256 *sha, const char *text)
{
    uint64_t n = text ? strlen(text) : UINT64_MAX;

    hth_sha256_update(sha, &n, sizeof(n)); /* in this machine's byte order, since keys never leave the process */
    if (text)
        hth_sha256_update(sha, text, (size_t)n);
}

static void add_number(hth_sha256 *sha, uint64_t number)
{
    hth_sha256_update(sha, &number, sizeof(number));
}

static void add_turn(hth_sha256 *sha, const hearth_chat_turn *turn)
{
    add_text(sha, turn->role);
    add_text(sha, turn->content);
    add_number(sha, turn->n_parts);
    for (size_t i = 0; i < turn->n_parts; i++)
        add_text(sha, turn->parts[i]);
    add_text(sha, turn->reasoning);
    add_number(sha, turn->n_calls);
    for (size_t i = 0; i < turn->n_calls; i++) {
        add_text(sha, turn->calls[i].id);
        add_text(sha, turn->calls[i].name);
        add_text(sha, turn->calls[i].arguments);
    }
    add_text(sha, turn->call_id);
    add_text(sha, turn->name);
}

static void add_conversation(hth_sha256 *sha, const hearth_conversation *conversation)
{
    add_number(sha, conversation->n_turns);
    for (size_t i = 0; i < conversation->n_turns; i++)
        add_turn(sha, &conversation->turns[i]);
    add_number(sha, conversation->n_tools);
    for (size_t i = 0; i < conversation->n_tools; i++) {
        add_text(sha, conversation->tools[i].name);
        add_text(sha, conversation->tools[i].description);
        add_text(sha, conversation->tools[i].parameters);
    }
    add_number(sha, (uint64_t)conversation->tool_choice);
    add_number(sha, conversation->parallel_calls | (unsigned)conversation->no_thinking << 1 |
                        (unsigned)conversation->reasoning_in_content << 2 | (unsigned)conversation->continue_last << 3 |
                        (unsigned)conversation->no_reply << 4);
    add_text(sha, conversation->json_schema);
    add_text(sha, conversation->template_values);
}

static void add_pieces(hth_sha256 *sha, const hth_api_text_prompt *prompt)
{
    add_number(sha, prompt->n_pieces);
    for (size_t i = 0; i < prompt->n_pieces; i++) {
        const hth_api_piece *piece = &prompt->pieces[i];

        add_text(sha, piece->text);
        add_number(sha, piece->n_tokens);
        hth_sha256_update(sha, piece->tokens, piece->n_tokens * sizeof(*piece->tokens));
    }
}

static void add_infill(hth_sha256 *sha, const hth_api_infill *infill)
{
    if (!infill)
        return;
    add_text(sha, infill->prefix);
    add_text(sha, infill->suffix);
    add_number(sha, infill->n_files);
    for (size_t i = 0; i < infill->n_files; i++) {
        add_text(sha, infill->files[i].name);
        add_text(sha, infill->files[i].text);
    }
}

bool hth_api_prompt_key(const hth_api_request *request, size_t i, uint8_t key[HTH_MEMO_KEY_BYTES])
{
    hth_sha256 *sha = hth_sha256_new();

    if (!sha)
        return false;
    add_text(sha, request->options.cache_salt);
    add_number(sha, request->options.no_cache_read); /* if set, its tokens are not those of the history */
    add_number(sha, request->is_chat);
    if (request->is_chat) {
        /*
         * Templates may show the time. A prompt is kept for one minute, so a template that shows seconds may show old
         * ones.
         */
        add_number(sha, hth_os_unix_seconds() / 60);
        add_conversation(sha, &request->conversation);
        add_number(sha, request->n_context);
        hth_sha256_update(sha, request->context, request->n_context * sizeof(*request->context));
    } else {
        add_pieces(sha, &request->prompts[i]);
        add_text(sha, request->suffix);
        add_infill(sha, request->infill);
    }
    hth_sha256_peek(sha, key);
    hth_sha256_free(sha);
    return true;
}

/* ---- the memory ---- */

static void ref_kept(void *kept)
{
    hth_api_prompt *prompt = kept;

    atomic_fetch_add_explicit(&prompt->references, 1, memory_order_relaxed);
}

static void unref_kept(void *prompt)
{
    hth_api_prompt_unref(prompt);
}

hth_memo *hth_api_prompts_new(size_t bytes_max)
{
    static const hth_memo_kind kind = { .ref = ref_kept, .unref = unref_kept };

    return hth_memo_new(bytes_max, &kind);
}

void hth_api_prompts_keep(hth_memo *prompts, const uint8_t key[HTH_MEMO_KEY_BYTES], hth_api_prompt *prompt)
{
    hth_memo_keep(prompts, key, prompt, bytes_of(prompt));
}

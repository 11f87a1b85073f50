/*
 * reply_body.c - writes a body in pieces
 *
 * A body can be far larger than the data it is made from (writer.h), so it never exists as a whole. Each call continues
 * where the last one ended:
 *
 *   BEGIN -> CHOICE -> LIST -> ENTRY ... -> LIST -> ... -> CHOICE_END -> CHOICE -> ... -> END -> OVER
 */
#include "api/writer.h"

void hth_api_add_open_take(hth_buffer *out, json_t *object)
{
    hth_buffer_add_json_take(out, object);
    if (!out->failed)
        out->text[--out->n] = '\0';
}

bool hth_api_has_lists(const hth_api_reply *reply)
{
    return reply->request->options.logprobs && !reply->request->omits_probabilities && reply->writer->n_lists > 0;
}

static void write_list(hth_api_reply *reply, hth_api_body *at, hth_buffer *out)
{
    at->entry = 0;
    at->part = HTH_API_BODY_CHOICE_END;
    if (!hth_api_has_lists(reply) || at->list == reply->writer->n_lists)
        return;
    hth_buffer_add_text(out, reply->writer->lists[at->list].begin);
    at->part = HTH_API_BODY_ENTRY;
}

static void write_entry(hth_api_reply *reply, hth_api_body *at, hth_buffer *out)
{
    const hth_api_choice *choice = &reply->choices[at->choice];
    const hth_api_list *list = &reply->writer->lists[at->list];

    if (at->entry == choice->pending.n) {
        hth_buffer_add_text(out, list->end);
        at->list++;
        at->part = HTH_API_BODY_LIST;
        return;
    }
    if (at->entry > 0)
        hth_buffer_add_text(out, ",");
    hth_buffer_add_json_take(out, list->entry(reply, choice, at->entry++));
}

static void write_part(hth_api_reply *reply, hth_api_body *at, hth_buffer *out)
{
    const hth_api_writer *writer = reply->writer;

    switch (at->part) {
    case HTH_API_BODY_BEGIN:
        if (writer->body_begin)
            writer->body_begin(reply, out);
        at->part = HTH_API_BODY_CHOICE;
        break;
    case HTH_API_BODY_CHOICE:
        if (at->choice > 0)
            hth_buffer_add_text(out, ",");
        writer->choice_body(reply, &reply->choices[at->choice], out);
        at->list = 0;
        at->part = HTH_API_BODY_LIST;
        break;
    case HTH_API_BODY_LIST: write_list(reply, at, out); break;
    case HTH_API_BODY_ENTRY: write_entry(reply, at, out); break;
    case HTH_API_BODY_CHOICE_END:
        if (writer->choice_body_end)
            writer->choice_body_end(reply, &reply->choices[at->choice], out);
        at->part = ++at->choice < reply->n_choices ? HTH_API_BODY_CHOICE : HTH_API_BODY_END;
        break;
    case HTH_API_BODY_END:
        if (writer->body_end)
            writer->body_end(reply, out);
        at->part = HTH_API_BODY_OVER;
        break;
    case HTH_API_BODY_OVER: break;
    }
}

bool hth_api_reply_body(hth_api_reply *reply, size_t n_bytes, hth_buffer *out)
{
    size_t n_before = out->n;

    while (reply->body.part != HTH_API_BODY_OVER && !out->failed && out->n - n_before < n_bytes)
        write_part(reply, &reply->body, out);
    return reply->body.part == HTH_API_BODY_OVER;
}

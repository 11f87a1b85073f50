/*
 * kinds.h - the parser and the writer for each kind of request; request_parse.c selects them
 */
#ifndef HTH_DIALECTS_KINDS_H
#define HTH_DIALECTS_KINDS_H

#include "api/parse.h"
#include "api/writer.h"

void hth_api_parse_chat(hth_api_parse *parse); /* also for /apply-template */
void hth_api_parse_completion(hth_api_parse *parse);
void hth_api_parse_messages(hth_api_parse *parse); /* also for count_tokens */
void hth_api_parse_native(hth_api_parse *parse);
void hth_api_parse_tokenize(hth_api_parse *parse);
void hth_api_parse_detokenize(hth_api_parse *parse);
void hth_api_parse_slot(hth_api_parse *parse);
void hth_api_parse_ollama_chat(hth_api_parse *parse);
void hth_api_parse_ollama_generate(hth_api_parse *parse);
void hth_api_parse_ollama_show(hth_api_parse *parse);
void hth_api_parse_responses(hth_api_parse *parse); /* also for input_tokens */
void hth_api_parse_embeddings(hth_api_parse *parse);
void hth_api_parse_native_embedding(hth_api_parse *parse);
void hth_api_parse_rerank(hth_api_parse *parse);
void hth_api_parse_ollama_embed(hth_api_parse *parse);
void hth_api_parse_ollama_embeddings(hth_api_parse *parse);

extern const hth_api_writer hth_api_write_chat;
extern const hth_api_writer hth_api_write_completion;
extern const hth_api_writer hth_api_write_messages;
extern const hth_api_writer hth_api_write_native;
extern const hth_api_writer hth_api_write_ollama;
extern const hth_api_writer hth_api_write_responses;

#endif

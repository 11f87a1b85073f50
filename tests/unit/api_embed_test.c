/*
 * api_embed_test.c - answers of the endpoints for embeddings and scores
 */
#include <math.h>
#include <string.h>

#include "api/request.h"
#include "dialects/answers.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

/* Two inputs of two values each. */
typedef struct made {
    float values[2][2];
    const float *vectors[2];
    uint32_t n_vectors[2], n_tokens[2];
    hearth_embeddings embeddings;
} made;

static const hearth_embeddings *make(made *m, float a, float b, float c, float d)
{
    *m = (made){ .values = { { a, b }, { c, d } }, .n_vectors = { 1, 1 }, .n_tokens = { 3, 4 } };
    m->vectors[0] = m->values[0];
    m->vectors[1] = m->values[1];
    m->embeddings = (hearth_embeddings){ .struct_size = sizeof(m->embeddings),
                                         .pooling = HEARTH_POOLING_MEAN,
                                         .n_inputs = 2,
                                         .n_values = 2,
                                         .vectors = m->vectors,
                                         .n_vectors = m->n_vectors,
                                         .n_tokens = m->n_tokens,
                                         .n_tokens_total = 7 };
    return &m->embeddings;
}

static void expect(hth_api_kind kind, const char *body, const hearth_embeddings *embeddings, const char *answer)
{
    hth_api_request *request = hth_test_parsed(kind, body);
    hth_buffer out = { .text = NULL };

    for (size_t n_bytes = 1; n_bytes <= 1 << 20; n_bytes <<= 10) { /* pieces of one vector, and one piece */
        hth_api_embed_answer *written = hth_api_embed_answer_new(request, embeddings, "m");

        assert_non_null(written);
        hth_buffer_clear(&out);
        while (!hth_api_embed_answer_write(written, n_bytes, &out))
            assert_false(out.failed);
        assert_string_equal(hth_buffer_text(&out), answer);
        hth_api_embed_answer_free(written);
    }
    hth_buffer_deinit(&out);
}

TEST(openais_answer_has_numbers_or_the_bytes_of_floats)
{
    made m;
    const hearth_embeddings *found = make(&m, 0.5f, -1, 2, 0.1f);

    expect(HTH_API_EMBEDDINGS, "{\"input\":[\"a\",\"b\"]}", found,
           "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0.5,-1]},"
           "{\"object\":\"embedding\",\"index\":1,\"embedding\":[2,0.100000001]}],\"model\":\"m\","
           "\"usage\":{\"prompt_tokens\":7,\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    expect(HTH_API_EMBEDDINGS, "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\"}", found,
           "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":\"AAAAPwAAgL8=\"},"
           "{\"object\":\"embedding\",\"index\":1,\"embedding\":\"AAAAQM3MzD0=\"}],\"model\":\"m\","
           "\"usage\":{\"prompt_tokens\":7,\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
}

TEST(a_value_that_is_no_number_is_null)
{
    made m;

    expect(HTH_API_NATIVE_EMBEDDING, "{\"content\":[\"a\",\"b\"]}", make(&m, NAN, INFINITY, 1, 2),
           "[{\"index\":0,\"embedding\":[[null,null]]},{\"index\":1,\"embedding\":[[1,2]]}]");
}

TEST(scores_come_best_first_and_what_is_no_number_last)
{
    made m;

    expect(HTH_API_RERANK, "{\"query\":\"q\",\"documents\":[\"a\",\"b\"],\"return_documents\":true}",
           make(&m, 1, 9, 2, 9),
           "{\"object\":\"list\",\"results\":[{\"index\":1,\"relevance_score\":2,\"document\":{\"text\":\"b\"}},"
           "{\"index\":0,\"relevance_score\":1,\"document\":{\"text\":\"a\"}}],\"model\":\"m\","
           "\"usage\":{\"prompt_tokens\":7,\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    expect(HTH_API_RERANK, "{\"query\":\"q\",\"texts\":[\"a\",\"b\"],\"return_text\":true}", make(&m, NAN, 9, -2, 9),
           "[{\"index\":1,\"score\":-2,\"text\":\"b\"},{\"index\":0,\"score\":null,\"text\":\"a\"}]");
    expect(HTH_API_RERANK, "{\"query\":\"q\",\"texts\":[\"a\",\"b\"],\"top_n\":1}", make(&m, 3, 9, 3, 9),
           "[{\"index\":0,\"score\":3}]");
}

TEST(ollamas_answers_may_be_without_vectors)
{
    made m;

    expect(HTH_API_OLLAMA_EMBED, "{\"model\":\"m\",\"input\":\"\"}", NULL, "{\"model\":\"m\",\"embeddings\":[]}");
    expect(HTH_API_OLLAMA_EMBEDDINGS, "{\"model\":\"m\",\"prompt\":\"\"}", NULL, "{\"embedding\":[]}");
    expect(HTH_API_OLLAMA_EMBEDDINGS, "{\"model\":\"m\",\"prompt\":\"a\"}", make(&m, 1, 2, 3, 4),
           "{\"embedding\":[1,2]}");
}

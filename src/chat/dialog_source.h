/*
 * dialog_source.h - the source of the replies of `hearth chat`: a model in this process, or a server
 *
 * A source belongs to one thread. Its waits end early when hth_dialog_stop is set (dialog_signals.h).
 */
#ifndef HTH_CHAT_DIALOG_SOURCE_H
#define HTH_CHAT_DIALOG_SOURCE_H

#include "chat/dialog_talk.h"
#include "options/model_options.h"

/* The numbers of a reply. A server that is not Hearth leaves some of them unknown. */
typedef struct hth_dialog_figures {
    bool is_cut;     /* the reply was stopped; the numbers are partial */
    bool has_counts; /* the token counts are known */
    bool has_hit;    /* hit, tier and miss are known */
    uint32_t prompt_tokens, cached_tokens;
    uint32_t completion_tokens;       /* reported by a server */
    double ttft_ms;                   /* measured here; 0: there was no token */
    double tokens_per_s;              /* 0: unknown */
    char hit[16], tier[16], miss[24]; /* names as in hearth.h */
    uint32_t left_at;                 /* position where the prompt diverged from the longest known prefix; 0: nowhere */
    char left_text[64];
} hth_dialog_figures;

/* Callbacks of a source during a reply, on the thread that requested it. */
typedef struct hth_dialog_hooks {
    void (*on_text)(bool is_thought, const char *text, size_t n_bytes, void *user_data);
    /* Progress of prefill: n_done of n_total tokens. */
    void (*on_progress)(uint32_t n_done, uint32_t n_total, void *user_data);
    void *user_data;
} hth_dialog_hooks;

typedef struct hth_dialog_source hth_dialog_source;
struct hth_dialog_source {
    const char *model; /* its name, for display */
    /*
     * Reply to the conversation. HEARTH_CANCELLED: hth_dialog_stop was set; the text so far was delivered, and out has
     * the numbers known so far. Other failures come with a message.
     */
    hearth_status (*reply)(hth_dialog_source *source, const hth_talk *talk, const hth_dialog_hooks *hooks,
                           hth_dialog_figures *out, hearth_error *err);
    /* Save what was computed, and free the source. */
    void (*close)(hth_dialog_source *source);
};

typedef struct hth_dialog_settings {
    hth_model_setup setup; /* path is the file; its defaults are the sampling options */
    const char *name;      /* of the model, for display */
    bool is_quiet, is_verbose;
} hth_dialog_settings;

/* Load a model into this process. settings must outlive the source. */
hearth_status hth_dialog_local_open(hth_dialog_settings *settings, hth_dialog_source **out, hearth_error *err);

/*
 * Talk to a server with OpenAI's API at url, such as http://127.0.0.1:8080 (with or without "/v1"). model NULL: the
 * first that the server lists. key may be NULL. defaults are sent as far as they are set, and must outlive the source.
 */
hearth_status hth_dialog_server_open(const char *url, const char *key, const char *model,
                                     const hth_api_defaults *defaults, hth_dialog_source **out, hearth_error *err);

#endif

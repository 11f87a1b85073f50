#include "chat/dialog_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/controls.h"
#include "base/status.h"
#include "console/output.h"

enum { SAID_BYTES = 4096 };

static const char dim[] = "\033[2m", plain[] = "\033[0m";

void hth_dialog_view_init(hth_dialog_view *view, bool is_quiet)
{
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");

    *view = (hth_dialog_view){ .is_terminal = isatty(STDOUT_FILENO), .is_quiet = is_quiet };
    view->has_colours = view->is_terminal && !(no_colour && *no_colour) && !(terminal && strcmp(terminal, "dumb") == 0);
    hth_progress_init(&view->progress, !is_quiet);
}

void hth_dialog_view_deinit(hth_dialog_view *view)
{
    hth_buffer_deinit(&view->answer);
    hth_buffer_deinit(&view->thoughts);
}

static void put(hth_dialog_view *view, const char *text, size_t n_bytes)
{
    if (fwrite(text, 1, n_bytes, stdout) != n_bytes)
        view->has_failed = true;
}

/* All of the text is shown, and further output begins a new line. */
static void end_text(hth_dialog_view *view)
{
    if (!hth_output_reply_flush(&view->wrap))
        view->has_failed = true;
    hth_word_wrap_restart(&view->wrap);
}

static void set_dim(hth_dialog_view *view, bool is_dim)
{
    if (view->is_dim == is_dim)
        return;
    view->is_dim = is_dim;
    end_text(view);
    if (!view->ends_in_line)
        put(view, "\n", 1);
    if (view->has_colours)
        put(view, is_dim ? dim : plain, strlen(is_dim ? dim : plain));
    if (!is_dim) {
        put(view, "\n", 1);
        view->ends_in_line = true;
    }
}

/* ---- the reply ---- */

static void on_text(bool is_thought, const char *text, size_t n_bytes, void *user_data)
{
    hth_dialog_view *view = user_data;

    hth_progress_end(&view->progress);
    hth_buffer_add(is_thought ? &view->thoughts : &view->answer, text, n_bytes);
    if (n_bytes == 0 || (is_thought && !view->is_terminal))
        return;
    set_dim(view, is_thought);
    if (!hth_output_reply(&view->wrap, text, n_bytes))
        view->has_failed = true;
    view->ends_in_line = text[n_bytes - 1] == '\n';
    if (fflush(stdout) != 0)
        view->has_failed = true;
}

static void on_progress(uint32_t n_done, uint32_t n_total, void *user_data)
{
    hth_dialog_view *view = user_data;
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "%" PRIu32 " of %" PRIu32 " tokens", n_done, n_total); /* sized for it */
    hth_progress_draw(&view->progress, "reading", n_total > 0 ? (double)n_done / n_total : 0, detail);
}

void hth_dialog_view_begin(hth_dialog_view *view, hth_dialog_hooks *hooks_out)
{
    hth_buffer_clear(&view->answer);
    hth_buffer_clear(&view->thoughts);
    view->is_dim = false;
    view->ends_in_line = true;
    hth_word_wrap_restart(&view->wrap);
    *hooks_out = (hth_dialog_hooks){ .on_text = on_text, .on_progress = on_progress, .user_data = view };
}

/* Words for a name in hearth.h; a list of them ends with NULL. */
typedef struct phrase {
    const char *name, *words;
} phrase;

static const phrase places[] = {
    { "live", "the running context" },
    { "ram", "memory" },
    { "ram_file", "the memory that processes share" },
    { "disk", "the disk" },
    { "remote", "another machine" },
    { NULL, NULL },
};

/* The words for a name; the name itself if there are none. */
static const char *words_for(const phrase *list, const char *name)
{
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list->words;
    return name;
}

static void print_figures(hth_dialog_view *view, const hth_dialog_figures *f)
{
    char known[64] = "", first[48] = "no token came", speed[48] = "";

    if (f->has_counts)
        (void)snprintf(known, sizeof(known), "%" PRIu32 " of %" PRIu32 " tokens known%s%s, ", f->cached_tokens,
                       f->prompt_tokens, f->has_hit && f->cached_tokens > 0 ? " from " : "",
                       f->has_hit && f->cached_tokens > 0 ? words_for(places, f->tier) : "");
    if (f->ttft_ms > 0)
        (void)snprintf(first, sizeof(first), "first token in %.0f ms", f->ttft_ms); /* both are sized for it */
    if (f->tokens_per_s > 0)
        (void)snprintf(speed, sizeof(speed), ", %.1f tokens/s", f->tokens_per_s);
    hth_dialog_view_say(view, "[%s%s%s]", known, first, speed);
}

void hth_dialog_view_end(hth_dialog_view *view, const hth_dialog_figures *figures)
{
    hth_progress_end(&view->progress);
    set_dim(view, false);
    end_text(view);
    if (!view->ends_in_line)
        put(view, "\n", 1);
    view->ends_in_line = true;
    if (fflush(stdout) != 0)
        view->has_failed = true;
    if (figures && view->is_terminal && !view->is_quiet)
        print_figures(view, figures);
}

/* ---- outside the conversation ---- */

void hth_dialog_view_say(hth_dialog_view *view, const char *format, ...)
{
    const bool coloured = view->has_colours && isatty(STDERR_FILENO);
    char text[SAID_BYTES], *at;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* may be truncated */
    va_end(arguments);
    hth_end_at_character(text, sizeof(text));
    for (at = text; *at; at++) /* names and texts from elsewhere; line ends are kept */
        memset(at, ' ', hth_mark_bytes(at, strlen(at)));
    (void)fputs(coloured ? dim : "", stderr); /* only a display, as all below */
    (void)hth_controls_leave_out(text, strlen(text), stderr);
    (void)fprintf(stderr, "%s\n", coloured ? plain : "");
}

static const phrase reasons[] = {
    { "never_seen", "the rest was never seen before" },
    { "evicted", "the rest was known, and made room for other prompts" },
    { "other_model", "the rest is known of another model file" },
    { "other_adapter", "the rest is known with other adapters" },
    { "other_parameters", "the rest is known under another context or engine" },
    { "other_tenant", "the rest is known of another user" },
    { "below_policy", "prompts of this length are not kept: computing a short one is cheap" },
    { "damaged", "its rows were damaged, and are made anew" },
    { "in_flight", "another process was still writing its rows" },
    { "not_read", "the cache is off" },
    { "refused", "memory or the engine refused its rows" },
    { "no_logits", "all tokens are known; the last was computed for the first token of the reply" },
    { NULL, NULL },
};

void hth_dialog_view_why(hth_dialog_view *view, const hth_dialog_figures *f)
{
    if (!f->has_counts) {
        hth_dialog_view_say(view, "%s",
                            !f->is_cut ? "the server does not tell how much of the prompt it knew"
                            : f->ttft_ms > 0
                                ? "the reply was stopped, and only its end would have said how much of the "
                                  "prompt was known"
                                : "the reply was stopped before its first token");
        return;
    }
    hth_dialog_view_say(view, "%" PRIu32 " of the prompt's %" PRIu32 " tokens were known%s%s", f->cached_tokens,
                        f->prompt_tokens, f->has_hit && f->cached_tokens > 0 ? ", from " : "",
                        f->has_hit && f->cached_tokens > 0 ? words_for(places, f->tier) : "");
    if (!f->has_hit || strcmp(f->miss, "none") == 0)
        return;
    hth_dialog_view_say(view, "%s", words_for(reasons, f->miss));
    if (f->left_at == 0 || f->left_at >= f->prompt_tokens || strcmp(f->miss, "below_policy") == 0)
        return;
    hth_dialog_view_say(view, "the prompt leaves what is known at token %" PRIu32 ": >>>%s<<<", f->left_at + 1,
                        f->left_text);
}

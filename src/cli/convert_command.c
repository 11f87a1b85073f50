/*
 * convert_command.c - `hearth convert`: makes a GGUF file from a checkpoint in safetensors files
 *
 *   1. read all headers, and say what will be written
 *   2. write the file under a temporary name in the result's directory; a mixed type is made in a second file
 *   3. load the file and test its tokenizer
 *   4. rename the file to its final name
 *
 * Ctrl-C removes the temporary files and ends the process at any step. A process that is killed leaves at most these
 * files, and the next conversion into the directory removes them (whole_file.h).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/whole_file.h"
#include "cli/run.h"
#include "console/interrupt.h"
#include "console/output.h"
#include "console/progress.h"
#include "console/units.h"
#include "convert/conversion.h"
#include "options/commands.h"
#include "options/option_table.h"

enum { N_FILES = 2, NAME_BYTES = 256, PATH_BYTES = 4096 };

typedef struct convert {
    const char *out;
    const char *type;
    const char *name;
    bool require_argument_order;
    bool dry_run;
    bool no_check;
    bool force;
    bool quiet;

    const char *folder;
    char default_name[NAME_BYTES];
    bool is_mixed;
    mode_t mode; /* of the result */
    hth_progress progress;
    const hth_model_writer *writer;
    hth_conversion *conversion;
    uint64_t bytes_done;

    /*
     * Guards the files. On Ctrl-C the signal thread takes it and never releases it, so that no file is made or renamed
     * afterwards.
     */
    pthread_mutex_t lock;
    hth_whole_file *files[N_FILES]; /* the result, and the file it is quantized from */
} convert;

/* ---- options ---- */

#define AT(field) offsetof(convert, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_HEADING, .help = "Output" },
    { "output", 'o', HTH_OPTION_TEXT, "FILE", "the GGUF file; it gets its name when it is whole and checked",
      .offset = AT(out), .is_common = true },
    { "type", 't', HTH_OPTION_TEXT, "TYPE",
      "f32, f16, bf16, q8_0, or a mixture of the engine: q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, iq4_nl, "
      "iq4_xs, q4_1, q4_0, q3_k_l, q3_k_m, q3_k_s, q2_k (default: the type of the checkpoint)",
      .offset = AT(type), .is_common = true },
    { "name", 0, HTH_OPTION_TEXT, "NAME", "the name inside the file (default: that of the folder)", .offset = AT(name),
      .is_common = true },
    { "force", 0, HTH_OPTION_FLAG, NULL, "replace FILE if it exists", .offset = AT(force), .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Work" },
    { "dry-run", 0, HTH_OPTION_FLAG, NULL, "read the headers, say what would be written, and write nothing",
      .offset = AT(dry_run), .is_common = true },
    { "no-check", 0, HTH_OPTION_FLAG, NULL, "do not load the result before it gets its name", .offset = AT(no_check),
      .is_common = true },
    { "require-argument-order", 0, HTH_OPTION_FLAG, NULL,
      "refuse files whose metadata have no argument_order, the order of the tensors in the result",
      .offset = AT(require_argument_order), .is_common = true },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "say errors only", .offset = AT(quiet), .is_common = true },
    { .kind = HTH_OPTION_HEADING, .help = "Help" },
    { "help", 'h', HTH_OPTION_END, .help = "this text", .is_common = true },
};

const hth_manual hth_convert_manual = {
    .name = "convert",
    .summary = "make a GGUF file of a checkpoint in safetensors files",
    .usage =
        "usage: hearth convert DIR -o FILE.gguf [--type TYPE] [OPTIONS]\n"
        "\n"
        "Makes a GGUF file of a checkpoint in the hub's layout: a folder with config.json, model.safetensors (or\n"
        "model.safetensors.index.json and the files that it names), and the tokenizer's files. The architectures are\n"
        "llama, mistral, qwen2, qwen3, gemma, gemma2 and gemma3 (text).\n"
        "\n",
    .closing = "\nExit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n"
               "\n"
               "  hearth convert Llama-3.2-1B-Instruct -o llama-3.2-1b.gguf --type q4_k_m\n"
               "  hearth convert Qwen3-0.6B -o qwen3.gguf --dry-run\n",
    .options = HTH_OPTION_ROWS(rows),
    .arguments = HTH_COMPLETE_DIRECTORY,
};

/* The default name is the last part of the directory's path. */
static void set_default_name(convert *c)
{
    char *path = realpath(c->folder, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;

    (void)snprintf(c->default_name, sizeof(c->default_name), "%s", slash && slash[1] ? slash + 1 : "model");
    free(path);
    if (!c->name)
        c->name = c->default_name;
}

static bool parse(convert *c, int argc, char **argv, int *exit_out)
{
    const int first = hth_manual_parse(&hth_convert_manual, NULL, argc, argv, c, exit_out);

    if (first < 0)
        return false;
    if (argc - first != 1)
        return hth_say("convert needs one DIR, the folder of a checkpoint; 'hearth convert --help' shows an example",
                       false);
    if (!c->out && !c->dry_run)
        return hth_say("convert needs a name for the result; give it with -o FILE.gguf", false);
    c->folder = argv[first];
    set_default_name(c);
    return true;
}

/* ---- files ---- */

/* The process ends here, so the files are not closed; only their names are removed. */
static void interrupt(void *user_data)
{
    convert *c = user_data;

    (void)pthread_mutex_lock(&c->lock); /* never released */
    for (size_t i = 0; i < N_FILES; i++)
        if (c->files[i])
            (void)unlink(hth_whole_file_temporary_path(c->files[i])); /* fails if it already has its final name */
    _exit(HTH_EXIT_INTERRUPTED);
}

static hearth_status begin_file(convert *c, size_t i, hearth_error *err)
{
    hth_whole_file_mode mode = c->force || i > 0 ? HTH_WHOLE_FILE_REPLACE : HTH_WHOLE_FILE_NEW;
    hearth_status status;

    (void)pthread_mutex_lock(&c->lock);
    status = hth_whole_file_begin(hth_fs_system(), c->out, mode, &c->files[i], err);
    (void)pthread_mutex_unlock(&c->lock);
    return status;
}

static void abort_file(convert *c, size_t i)
{
    (void)pthread_mutex_lock(&c->lock);
    hth_whole_file_abort(c->files[i]);
    c->files[i] = NULL;
    (void)pthread_mutex_unlock(&c->lock);
}

static hearth_status commit_file(convert *c, hearth_error *err)
{
    hearth_status status;

    (void)pthread_mutex_lock(&c->lock);
    (void)fchmod(hth_whole_file_descriptor(c->files[0]), c->mode); /* otherwise only the owner can read it */
    status = hth_whole_file_commit(c->files[0], err);
    c->files[0] = NULL; /* also on failure */
    (void)pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- work ---- */

typedef struct sink {
    convert *c;
    hth_whole_file *file;
} sink;

static hearth_status put(void *user_data, const void *bytes, size_t n_bytes, hearth_error *err)
{
    const sink *to = user_data;
    uint64_t bytes_out = hth_conversion_planned(to->c->conversion)->bytes_out;
    char detail[32];

    to->c->bytes_done += n_bytes;
    hth_progress_draw(&to->c->progress, "writing", (double)to->c->bytes_done / (double)bytes_out,
                      hth_size_text(to->c->bytes_done, detail));
    return hth_whole_file_write(to->file, bytes, n_bytes, err);
}

static hearth_status write_file(convert *c, size_t i, hearth_error *err)
{
    sink to = { .c = c, .file = c->files[i] };
    hearth_status status = hth_conversion_write(c->conversion, put, &to, err);

    hth_progress_end(&c->progress);
    return status;
}

/* The only form in which the engine reports progress: "[   3/ 290] ..." */
static void watch_log(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    convert *c = user_data;
    char *end = NULL;
    long n = message[0] == '[' ? strtol(message + 1, &end, 10) : 0;
    long n_max = end && *end == '/' ? strtol(end + 1, NULL, 10) : 0;

    (void)level;
    (void)source;
    if (n > 0 && n_max > 0)
        hth_progress_draw(&c->progress, "quantising", (double)(n - 1) / (double)n_max, "");
}

static hearth_status make_mixed(convert *c, hearth_error *err)
{
    hth_log log = { .level = HEARTH_LOG_INFO, .write = watch_log, .user_data = c };
    hearth_status status = begin_file(c, 1, err);

    if (status == HEARTH_OK)
        status = write_file(c, 1, err);
    if (status == HEARTH_OK)
        status = c->writer->quantize(hth_whole_file_temporary_path(c->files[1]),
                                     hth_whole_file_temporary_path(c->files[0]), c->type, &log, err);
    hth_progress_end(&c->progress);
    abort_file(c, 1);
    return status;
}

static bool show_check(float fraction, void *user_data)
{
    convert *c = user_data;

    hth_progress_draw(&c->progress, "checking", (double)fraction, "");
    return true;
}

static hearth_status check_file(convert *c, hearth_error *err)
{
    hearth_status status = hth_converted_check(hth_whole_file_temporary_path(c->files[0]),
                                               hth_conversion_planned(c->conversion)->n_tokens, show_check, c, err);

    hth_progress_end(&c->progress);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "the result does not work and was removed");
    return status;
}

static void say_plan(const convert *c)
{
    const hth_conversion_plan *plan = hth_conversion_planned(c->conversion);
    FILE *to = c->dry_run ? stdout : stderr;
    char in[32], out[32];

    if (c->quiet && !c->dry_run)
        return;
    (void)fprintf(to, "%s, %.2f billion weights in %zu tensors, %s in %zu file%s\n", plan->architecture,
                  (double)plan->n_parameters / 1e9, plan->n_tensors, hth_size_text(plan->bytes_in, in), plan->n_files,
                  plan->n_files == 1 ? "" : "s");
    (void)fprintf(to, "context of %u tokens; tokenizer %s (%s) of %zu tokens\n", plan->n_ctx, plan->tokenizer,
                  plan->tokenizer_pre, plan->n_tokens);
    (void)fprintf(to, "%s %s, %s%s%s\n", c->dry_run ? "would write" : "writing", plan->type,
                  hth_size_text(plan->bytes_out, out), c->is_mixed ? ", and quantise it to " : "",
                  c->is_mixed ? c->type : "");
}

/*
 * A file of a mixed type exists at the same time as the file that it is made from. The engine chooses the types of its
 * tensors; each weight has at least as many bits as the digit in the type's name.
 */
static uint64_t bytes_needed(const convert *c)
{
    const hth_conversion_plan *plan = hth_conversion_planned(c->conversion);
    uint64_t n_bits = c->is_mixed ? (uint64_t)(c->type[strcspn(c->type, "123456789")] - '0') : 0;

    return plan->bytes_out + plan->n_parameters / 8 * n_bits;
}

static hearth_status check_room(const convert *c, hearth_error *err)
{
    uint64_t needed = bytes_needed(c), found = 0;
    const char *slash = strrchr(c->out, '/');
    char folder[PATH_BYTES], text[32];

    (void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - c->out) + 1 : 1, slash ? c->out : ".");
    if (hth_fs_free_bytes(hth_fs_system(), folder, &found) != 0 || found >= needed)
        return HEARTH_OK; /* if unknown, a lack of space shows when writing */
    return hth_fail(err, HEARTH_FULL, "'%s' has no room for %s; free some, or choose another place with -o", folder,
                    hth_size_text(needed, text));
}

static hearth_status open_conversion(convert *c, hearth_error *err)
{
    hearth_status status = hth_model_writer_find(NULL, &c->writer, err);

    if (status != HEARTH_OK)
        return status;
    if (c->type && !c->writer->type_find(c->type, &c->is_mixed))
        return hth_fail(err, HEARTH_MISUSE, "there is no type '%.40s'; 'hearth convert --help' lists them", c->type);
    return hth_conversion_open(c->writer, c->folder, c->type, c->name, c->require_argument_order, &c->conversion, err);
}

static hearth_status run(convert *c, hearth_error *err)
{
    hearth_status status = open_conversion(c, err);

    if (status != HEARTH_OK)
        return status;
    say_plan(c);
    if (c->dry_run)
        return HEARTH_OK;
    hth_whole_file_sweep(c->out);
    status = check_room(c, err);
    if (status == HEARTH_OK)
        status = begin_file(c, 0, err);
    if (status == HEARTH_OK)
        status = c->is_mixed ? make_mixed(c, err) : write_file(c, 0, err);
    if (status == HEARTH_OK && !c->no_check)
        status = check_file(c, err);
    if (status == HEARTH_OK)
        status = commit_file(c, err);
    else
        abort_file(c, 0);
    return status;
}

int hth_command_convert(int argc, char **argv)
{
    convert *c = calloc(1, sizeof(*c));
    hearth_error err = { .message = "" };
    mode_t mask = umask(0);
    hearth_status status;
    int exit_code;

    (void)umask(mask);
    if (!c)
        return hth_say("no memory", HTH_EXIT_FAILED);
    if (!parse(c, argc, argv, &exit_code)) {
        free(c);
        return exit_code;
    }
    c->mode = 0666 & ~mask;
    hth_progress_init(&c->progress, !c->quiet);
    pthread_mutex_init(&c->lock, NULL);
    if (!hth_interrupt_watch(interrupt, c))
        (void)fputs("hearth: warning: Ctrl-C will leave a temporary file behind\n", stderr);
    status = run(c, &err);
    if (status != HEARTH_OK)
        hth_say_error(&err);
    hth_conversion_close(c->conversion);
    /* c is not freed, because the thread that waits for signals may still use it. */
    return status == HEARTH_OK ? HTH_EXIT_OK : status == HEARTH_MISUSE ? HTH_EXIT_USAGE : HTH_EXIT_FAILED;
}

#include "chat/dialog_talk.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/controls.h"
#include "base/grow.h"
#include "base/status.h"
#include "base/utf8.h"
#include "base/whole_file.h"

enum { NAME_BYTES_MAX = 100, FILE_BYTES_MAX = 64 << 20, LISTED_MAX = 1000, QUESTION_COLUMNS = 48, NAMES_MAX = 10000 };

static const char ending[] = ".json";

/* ---- messages ---- */

bool hth_talk_init(hth_talk *talk)
{
    *talk = (hth_talk){ .messages = json_array(), .temperature = NAN };
    return talk->messages != NULL;
}

void hth_talk_deinit(hth_talk *talk)
{
    json_decref(talk->messages);
    free(talk->system);
}

void hth_talk_clear(hth_talk *talk)
{
    json_array_clear(talk->messages);
    talk->has_file = false; /* another conversation */
}

bool hth_talk_set_system(hth_talk *talk, const char *text)
{
    char *copy = text && *text ? strdup(text) : NULL;

    if (text && *text && !copy)
        return false;
    free(talk->system);
    talk->system = copy;
    return true;
}

bool hth_talk_add(hth_talk *talk, const char *role, const char *content, const char *reasoning)
{
    json_t *message = json_pack("{s:s, s:s}", "role", role, "content", content);

    if (message && *reasoning && json_object_set_new(message, "reasoning_content", json_string(reasoning)) != 0) {
        json_decref(message);
        return false;
    }
    return json_array_append_new(talk->messages, message) == 0; /* which refuses NULL */
}

static const char *text_of(const json_t *message, const char *key)
{
    return json_string_value(json_object_get(message, key));
}

static bool is_question(const json_t *message)
{
    const char *role = text_of(message, "role");

    return role && strcmp(role, "user") == 0;
}

const char *hth_talk_last_question(const hth_talk *talk)
{
    for (size_t i = json_array_size(talk->messages); i > 0; i--)
        if (is_question(json_array_get(talk->messages, i - 1)))
            return text_of(json_array_get(talk->messages, i - 1), "content");
    return NULL;
}

bool hth_talk_has_open_question(const hth_talk *talk)
{
    const size_t n = json_array_size(talk->messages);

    return n > 0 && is_question(json_array_get(talk->messages, n - 1));
}

void hth_talk_drop_reply(hth_talk *talk, bool with_question)
{
    size_t n = json_array_size(talk->messages);

    while (n > 0 && !is_question(json_array_get(talk->messages, n - 1)))
        (void)json_array_remove(talk->messages, --n); /* it exists */
    if (n > 0 && with_question)
        (void)json_array_remove(talk->messages, n - 1);
}

json_t *hth_talk_request(const hth_talk *talk)
{
    json_t *all = json_array();

    if (talk->system)
        json_array_append_new(all, json_pack("{s:s, s:s}", "role", "system", "content", talk->system));
    if (json_array_extend(all, talk->messages) == 0 &&
        json_array_size(all) == json_array_size(talk->messages) + (talk->system != NULL))
        return all;
    json_decref(all);
    return NULL;
}

/* ---- names ---- */

bool hth_talk_folder(char out[PATH_MAX])
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = -1;

    if (data && *data == '/')
        n = snprintf(out, PATH_MAX, "%s/hearth/chats", data);
    else if (home && *home == '/')
        n = snprintf(out, PATH_MAX, "%s/.local/share/hearth/chats", home);
    return n > 0 && n < PATH_MAX;
}

static bool is_name(const char *name)
{
    const size_t n = strlen(name);

    return n > 0 && n <= NAME_BYTES_MAX && *name != '.' && !strchr(name, '/') && !hth_has_controls(name);
}

bool hth_talk_path(const char *name, char out[PATH_MAX], hearth_error *err)
{
    char folder[PATH_MAX];
    int n;

    if (!is_name(name)) {
        (void)hth_fail(err, HEARTH_MISUSE,
                       "'%s' is no name of a conversation; take up to %d bytes without '/', not beginning with '.'",
                       name, (int)NAME_BYTES_MAX);
        return false;
    }
    if (!hth_talk_folder(folder)) {
        (void)hth_fail(err, HEARTH_NOT_FOUND, "there is no folder for conversations; set HOME or XDG_DATA_HOME");
        return false;
    }
    n = snprintf(out, PATH_MAX, "%s/%s%s", folder, name, ending);
    if (n > 0 && n < PATH_MAX)
        return true;
    (void)hth_fail(err, HEARTH_MISUSE, "the path of the conversation '%s' is too long", name);
    return false;
}

bool hth_talk_is_kept(const char *name)
{
    char path[PATH_MAX];

    return hth_talk_path(name, path, NULL) && access(path, F_OK) == 0;
}

void hth_talk_new_name(char out[NAME_MAX + 1])
{
    const time_t now = time(NULL);
    struct tm parts = { .tm_year = 70 };
    char base[32];

    (void)localtime_r(&now, &parts); /* a failure leaves 1970, which is still a name */
    (void)strftime(base, sizeof(base), "%Y-%m-%d-%H%M%S", &parts);
    (void)snprintf(out, NAME_MAX + 1, "%s", base); /* sized for it, as below */
    for (int i = 2; hth_talk_is_kept(out) && i < NAMES_MAX; i++)
        (void)snprintf(out, NAME_MAX + 1, "%s-%d", base, i);
}

/* ---- files ---- */

static bool make_folders(char path[PATH_MAX])
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* the last one reports a failure */
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static char *dump(const hth_talk *talk, const char *model)
{
    json_t *object = json_pack("{s:s, s:O}", "model", model, "messages", talk->messages);
    char *text;

    if (object && talk->system)
        json_object_set_new(object, "system", json_string(talk->system));
    if (object && !isnan(talk->temperature))
        json_object_set_new(object, "temperature", json_real(talk->temperature));
    text = object ? json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(object);
    return text;
}

static hearth_status write_talk(const hth_talk *talk, const char *name, const char *model, hth_whole_file_mode mode,
                                hearth_error *err)
{
    char path[PATH_MAX], folder[PATH_MAX];
    hth_whole_file *file = NULL;
    hearth_status status;
    char *text;

    if (!hth_talk_path(name, path, err) || !hth_talk_folder(folder))
        return HEARTH_MISUSE;
    if (!make_folders(folder))
        return hth_fail(err, HEARTH_IO, "cannot make the folder '%s': %s", folder, strerror(errno));
    text = dump(talk, model);
    if (!text)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to save the conversation");
    status = hth_whole_file_begin(hth_fs_system(), path, mode, &file, err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, text, strlen(text), err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, "\n", 1, err);
    status = hth_whole_file_end(file, status, err);
    free(text);
    return status;
}

hearth_status hth_talk_save(hth_talk *talk, char name[NAME_MAX + 1], const char *model, hearth_error *err)
{
    hearth_status status = HEARTH_MISUSE;

    if (talk->has_file)
        return write_talk(talk, name, model, HTH_WHOLE_FILE_REPLACE, err);
    for (int i = 0; i < NAMES_MAX && status == HEARTH_MISUSE; i++) {
        status = write_talk(talk, name, model, HTH_WHOLE_FILE_NEW, err);
        if (status == HEARTH_MISUSE && !hth_talk_is_kept(name))
            return status; /* it failed for another reason */
        if (status == HEARTH_MISUSE)
            hth_talk_new_name(name);
    }
    talk->has_file = status == HEARTH_OK;
    return status;
}

hearth_status hth_talk_save_as(hth_talk *talk, const char *name, const char *model, hearth_error *err)
{
    const hearth_status status = write_talk(talk, name, model, HTH_WHOLE_FILE_NEW, err);

    talk->has_file |= status == HEARTH_OK;
    return status;
}

void hth_talk_remove(const char *name)
{
    char path[PATH_MAX];

    if (hth_talk_path(name, path, NULL))
        (void)unlink(path); /* there may be none */
}

/* Are these valid messages for a conversation to continue? */
static bool are_messages(const json_t *messages)
{
    json_t *message;
    size_t i;

    if (!json_is_array(messages))
        return false;
    json_array_foreach(messages, i, message)
    {
        const json_t *reasoning = json_object_get(message, "reasoning_content");

        if (!text_of(message, "role") || !text_of(message, "content") || (reasoning && !json_is_string(reasoning)))
            return false;
    }
    return true;
}

hearth_status hth_talk_load(hth_talk *talk, const char *name, hearth_error *err)
{
    char path[PATH_MAX];
    json_error_t wrong;
    struct stat about;
    json_t *object, *messages, *temperature;
    hearth_status status = HEARTH_OK;

    if (!hth_talk_path(name, path, err))
        return HEARTH_MISUSE;
    if (stat(path, &about) != 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no conversation '%s'; /load lists those that are kept", name);
    if (!S_ISREG(about.st_mode) || about.st_size > FILE_BYTES_MAX)
        return hth_fail(err, HEARTH_INVALID_TEXT, "'%s' is no file of a conversation, or larger than 64 MiB", path);
    object = json_load_file(path, 0, &wrong);
    messages = json_object_get(object, "messages");
    temperature = json_object_get(object, "temperature");
    if (!are_messages(messages) || (temperature && !json_is_number(temperature))) {
        json_decref(object);
        return hth_fail(err, HEARTH_INVALID_TEXT, "'%s' is no conversation: %s", path,
                        object ? "its messages need texts 'role' and 'content'" : wrong.text);
    }
    if (!hth_talk_set_system(talk, text_of(object, "system"))) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the conversation '%s'", name);
    } else {
        json_decref(talk->messages);
        talk->messages = json_incref(messages);
        talk->has_file = true;
        talk->temperature = temperature ? json_number_value(temperature) : NAN;
    }
    json_decref(object);
    return status;
}

/* ---- the list ---- */

typedef struct kept {
    char name[NAME_MAX + 1];
    time_t saved_s;
} kept;

static int by_time(const void *a, const void *b)
{
    const kept *first = a, *second = b;

    if (first->saved_s != second->saved_s)
        return first->saved_s > second->saved_s ? -1 : 1;
    return -strcmp(first->name, second->name);
}

/* The saved conversations, at most LISTED_MAX, newest first; the caller frees them. *n_out is 0 if there are none. */
static kept *find_kept(size_t *n_out)
{
    char folder[PATH_MAX], path[PATH_MAX + NAME_MAX + 1];
    DIR *directory = hth_talk_folder(folder) ? opendir(folder) : NULL;
    const struct dirent *entry;
    kept *all = NULL, *grown;
    size_t n = 0, capacity = 0;
    struct stat about;

    while (directory && (entry = readdir(directory))) {
        const size_t n_bytes = strlen(entry->d_name);

        if (n_bytes < sizeof(ending) || *entry->d_name == '.' ||
            strcmp(entry->d_name + n_bytes - (sizeof(ending) - 1), ending) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
            continue;
        grown = hth_grown_by(all, n, 1, &capacity, sizeof(*all));
        if (!grown)
            break; /* out of memory: a partial list is better than none */
        all = grown;
        (void)snprintf(all[n].name, sizeof(all->name), "%.*s", (int)(n_bytes - (sizeof(ending) - 1)), entry->d_name);
        all[n++].saved_s = about.st_mtime;
    }
    if (directory)
        closedir(directory);
    if (n > 0)
        qsort(all, n, sizeof(*all), by_time);
    *n_out = n < LISTED_MAX ? n : LISTED_MAX;
    return all;
}

bool hth_talk_newest(char out[NAME_MAX + 1])
{
    size_t n;
    kept *all = find_kept(&n);

    if (n > 0)
        (void)snprintf(out, NAME_MAX + 1, "%s", all[0].name);
    free(all);
    return n > 0;
}

/* Print the beginning of its first question, on one line. */
static void print_kept(const kept *one, FILE *out)
{
    hth_talk talk;
    const char *question = NULL;
    json_t *message;
    char line[4 * QUESTION_COLUMNS + 8];
    size_t i, n = 0;
    int columns = 0;

    if (!hth_talk_init(&talk))
        return;
    n = (size_t)snprintf(line, sizeof(line), "  %-24.100s ", one->name);
    (void)hth_controls_leave_out(line, n, out); /* only a display */
    n = 0;
    if (hth_talk_load(&talk, one->name, NULL) == HEARTH_OK)
        json_array_foreach(talk.messages, i, message) if (!question && is_question(message)) question =
            text_of(message, "content");
    for (; question && *question && columns < QUESTION_COLUMNS; question++) {
        columns += !hth_utf8_goes_on(*question);
        if (n < sizeof(line) - 4)
            line[n++] = (char)(*question == '\n' || *question == '\t' ? ' ' : *question);
    }
    for (; question && hth_utf8_goes_on(*question) && n < sizeof(line); question++)
        line[n++] = *question;
    (void)hth_controls_leave_out(line, n, out); /* only a display */
    (void)fputs(question && *question ? "...\n" : "\n", out);
    hth_talk_deinit(&talk);
}

bool hth_talk_list(FILE *out)
{
    size_t n;
    kept *all = find_kept(&n);

    for (size_t i = 0; i < n; i++)
        print_kept(&all[i], out);
    free(all);
    return n > 0;
}

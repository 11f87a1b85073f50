/*
 * takeover.c - replies whose client was at another node, and with which this one goes on
 *
 *   a client asks here for a stream of another node     its journal is taken, and the stream is read here
 *   a client cancels or removes a response there        likewise, and then cancelled here
 *   the node of a response without a client is gone      the first node that sees so takes the journal
 *
 * A client that only asks for such a response gets its beginning from the journal, which stays where it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"
#include "front/model_names.h"

/* ---- going on ---- */

/* A request without an exchange. NULL: no memory, or the journal names no route. */
static hth_front_request *request_of(hth_front *front, const hth_journaled *journaled)
{
    const hth_route *route = hth_route_find(journaled->target);
    hth_front_request *r =
        route && route->kind == HTH_ROUTE_GENERATE ? hth_front_request_new("POST", route->path, "another node") : NULL;

    if (!r)
        return NULL;
    hth_buffer_add(&r->past.records, journaled->past, journaled->n_past);
    if (r->past.records.failed) {
        hth_buffer_deinit(&r->past.records);
        free(r);
        return NULL;
    }
    front->n_requests++;
    r->front = front;
    r->options = hth_front_options_hold(front);
    r->begin_ns = hth_os_monotonic_ns();
    r->route = route;
    r->has_owner = true;
    memcpy(r->owner, journaled->key, sizeof(r->owner));
    (void)snprintf(r->id, sizeof(r->id), "%s", journaled->id); /* these had room */
    (void)snprintf(r->traceparent, sizeof(r->traceparent), "%s", journaled->traceparent);
    (void)snprintf(r->model, sizeof(r->model), "%s", journaled->model);
    (void)snprintf(r->adapter, sizeof(r->adapter), "%s", journaled->adapter);
    r->names_adapter = journaled->names_adapter;
    r->is_elsewhere = !hth_model_exactly(r->options->options, r->model);
    r->record = (hth_access_record){ .key = "",
                                     .peer = r->peer,
                                     .method = r->method,
                                     .path = r->path,
                                     .endpoint = route->endpoint,
                                     .model = r->model,
                                     .bytes_in = journaled->n_body };
    (void)snprintf(r->record.request_id, sizeof(r->record.request_id), "%s", journaled->request_id);
    return r;
}

static bool begin(hth_front *front, const hth_journaled *journaled, hth_journal_rest *rest, hth_journal *journal)
{
    hth_front_request *r = request_of(front, journaled);
    const bool is_stream = *journaled->content_type != '\0';
    const char *salt = *journaled->salt ? journaled->salt : NULL;
    hth_anchor anchors[HTH_ANCHORS_MAX];
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    hth_relay_request asked;

    if (!r) {
        hth_journal_leave(journal);
        return false;
    }
    asked = (hth_relay_request){
        .model = r->model,
        .method = r->method,
        .target = journaled->target,
        .dialect = hth_route_dialect(r->route),
        .generates = true,
        .names_adapter = r->names_adapter,
        .is_elsewhere = r->is_elsewhere,
        .beginning = hth_front_beginning_of(journaled->body, journaled->n_body),
        .anchors = anchors,
        .n_anchors = hth_front_fleet_anchors(front, r->route, r->model, r->names_adapter ? r->adapter : NULL, salt,
                                             journaled->body, journaled->n_body, anchors),
        .adapter = r->names_adapter ? r->adapter : NULL,
        .id = r->id,
        .request_id = r->record.request_id,
        .traceparent = *r->traceparent ? r->traceparent : NULL,
        .salt = salt,
        .past = r->past.records.text,
        .past_bytes = r->past.records.n,
        .on_record = r->route->api == HTH_API_RESPONSES ? hth_front_on_record : NULL,
        .record = &r->record,
        .wants_events = is_stream,
        .wants_kept = is_stream,
        .key = r->owner,
        .on_over = hth_front_on_relayed,
        .user_data = r,
    };
    if (journaled->n_begun > 0) {
        hth_front_response_key(r, key);
        hth_running_begin(&r->running, &front->running, front->responses, key, journaled->begun, journaled->n_begun,
                          true);
    }
    hth_info(&front->log, "request %s: this node goes on with it, after %u tokens", r->record.request_id,
             rest->n_tokens);
    r->running.relay = hth_proxy_take_over(front->proxy, &asked, journaled, rest, journal);
    if (r->running.relay)
        return true;
    r->record.goes_on = true; /* maybe; nothing is known of it here any more */
    r->record.status = HTH_STATUS_CLIENT_GONE;
    hth_front_request_end(r);
    return false;
}

/* Go on with what a journal says, or only keep a stream that has ended. False: that is not possible here now. */
static bool go_on(hth_front *front, const void *first, size_t n_first, const void *bytes, size_t n,
                  hth_journal *journal)
{
    hth_journaled journaled;
    hth_journal_rest rest;
    bool ok;

    if (!hth_journaled_read(first, n_first, &journaled)) {
        hth_warn(&front->log, "a reply of another node cannot go on here: its journal is of another version of Hearth");
        hth_journal_leave(journal);
        return false;
    }
    if (!hth_journal_rest_read(bytes, n, &rest)) {
        hth_journaled_deinit(&journaled);
        hth_journal_leave(journal);
        return false;
    }
    if (rest.is_whole) {
        ok = hth_kept_stream_add_ended(front->kept, journaled.content_type, journaled.id, journaled.key, &rest.events);
        hth_journal_leave(journal);
    } else {
        ok = begin(front, &journaled, &rest, journal);
    }
    hth_journal_rest_deinit(&rest);
    hth_journaled_deinit(&journaled);
    return ok;
}

/* ---- for a request ---- */

/* The name of the journal of this id. False: there are no journals, or there is no memory. */
static bool name_of(const hth_front_request *r, const char *id, char name[HTH_JOURNAL_NAME_BYTES])
{
    const hth_journals *journals = r->front->fleet.journals;

    return journals && hth_journal_name(journals, id, hth_front_owner(r), HTH_KEPT_KEY_BYTES, name);
}

/* Begin to look for the journal of this id. False: there is no store, or no memory. */
static bool take(hth_front_request *r, const char *id, hth_journal_way way,
                 void (*then)(hth_journal_taken, const void *, size_t, const void *, size_t, hth_journal *, void *))
{
    char name[HTH_JOURNAL_NAME_BYTES];

    if (!name_of(r, id, name))
        return false;
    r->take = (hth_journal_take){ .on_taken = then, .user_data = r };
    return hth_journal_take_begin(r->front->fleet.journals, name, way, &r->take);
}

/* The journal is there, but not for this node now. */
static void refuse_to_go_on(hth_front_request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(
        &error, HTH_API_OVERLOADED, NULL,
        "this began at another node, and this one cannot go on with it now: it keeps as many streams as it may "
        "(streams.total_bytes_max), has no memory, or is of another version; ask again, or another node");
    error.retry_after_s = 1;
    hth_front_request_refuse(r, &error, "overloaded");
}

static void on_taken(hth_journal_taken taken, const void *first, size_t n_first, const void *rest, size_t n_rest,
                     hth_journal *journal, void *user_data)
{
    hth_front_request *r = user_data;

    if (taken == HTH_JOURNAL_TAKEN && !go_on(r->front, first, n_first, rest, n_rest, journal))
        refuse_to_go_on(r);
    else
        r->then(r, NULL, 0);
}

void hth_front_forget_stream(hth_front_request *r)
{
    char name[HTH_JOURNAL_NAME_BYTES];

    if (name_of(r, hth_front_below(r), name))
        hth_journals_remove(r->front->fleet.journals, name);
}

/*
 * A node looks whether it could go on before it takes a journal: otherwise nobody would, neither the owner from before
 * nor another node.
 */
static void on_stream_looked(hth_journal_taken taken, const void *first, size_t n_first, const void *rest,
                             size_t n_rest, hth_journal *journal, void *user_data)
{
    hth_front_request *r = user_data;
    hth_journaled journaled;
    bool is_stream, has_room;

    (void)rest; /* a look brings only the first piece */
    (void)n_rest;
    (void)journal;
    if (taken != HTH_JOURNAL_TAKEN) {
        r->then(r, NULL, 0);
        return;
    }
    if (!hth_journaled_read(first, n_first, &journaled)) {
        refuse_to_go_on(r);
        return;
    }
    is_stream = *journaled.content_type != '\0';
    has_room = hth_kept_streams_have_room(r->front->kept, journaled.key, journaled.n_body);
    hth_journaled_deinit(&journaled);
    if (is_stream && strcmp(r->method, "DELETE") == 0) {
        hth_front_forget_stream(r); /* its owner hears so */
        hth_front_request_answer_bytes(r, 204, NULL, NULL, 0);
    } else if (is_stream && !has_room) {
        refuse_to_go_on(r);
    } else if (!is_stream || !take(r, hth_front_below(r), HTH_JOURNAL_ALWAYS, on_taken)) {
        r->then(r, NULL, 0);
    }
}

bool hth_front_take_stream(hth_front_request *r, hth_front_then *then)
{
    r->then = then;
    return take(r, hth_front_below(r), HTH_JOURNAL_LOOK, on_stream_looked);
}

static const char response_prefix[] = "resp_";

/* The id in a path below /v1/responses, without its prefix. False: it is no such id. */
static bool read_id(const char *path, char out[HTH_KEPT_ID_BYTES])
{
    const size_t n_prefix = sizeof(response_prefix) - 1, n = strcspn(path, "/");

    if (strncmp(path, response_prefix, n_prefix) != 0 || n <= n_prefix || n - n_prefix >= HTH_KEPT_ID_BYTES)
        return false;
    memcpy(out, path + n_prefix, n - n_prefix);
    out[n - n_prefix] = '\0';
    return true;
}

/* Does the request end its response? */
static bool is_an_end(const hth_front_request *r)
{
    const char *slash = strchr(hth_front_below(r), '/');

    return slash ? hth_method_is("POST", r->method) && strcmp(slash, "/cancel") == 0
                 : hth_method_is("DELETE", r->method);
}

static void on_response_looked(hth_journal_taken taken, const void *first, size_t n_first, const void *rest,
                               size_t n_rest, hth_journal *journal, void *user_data)
{
    hth_front_request *r = user_data;
    hth_journaled journaled = { .n_begun = 0 };
    char id[HTH_KEPT_ID_BYTES];
    /* A stream has no such record, though it may be of a response. */
    const bool is_there =
        taken == HTH_JOURNAL_TAKEN && hth_journaled_read(first, n_first, &journaled) && journaled.n_begun > 0;

    (void)rest; /* a look brings only the first piece */
    (void)n_rest;
    (void)journal;
    if (!is_there || !is_an_end(r) || !read_id(hth_front_below(r), id) || !take(r, id, HTH_JOURNAL_ALWAYS, on_taken))
        r->then(r, is_there ? journaled.begun : NULL, journaled.n_begun);
    hth_journaled_deinit(&journaled);
}

bool hth_front_look_for_response(hth_front_request *r, hth_front_then *then)
{
    const char *response = hth_front_below(r);
    uint8_t key[HTH_RESPONSE_KEY_BYTES];
    char id[HTH_KEPT_ID_BYTES];

    hth_response_key(hth_front_owner(r), response, strcspn(response, "/"), key);
    if (hth_running_is_here(r->front->running, key))
        return false;
    r->then = then;
    return read_id(response, id) && take(r, id, HTH_JOURNAL_LOOK, on_response_looked);
}

/* ---- for nobody ---- */

/* One that is being taken. */
struct hth_orphan {
    hth_orphan *prev, *next;
    hth_front *front;
    hth_journal_take take;
    char name[HTH_JOURNAL_NAME_BYTES];
};

static void orphan_free(hth_orphan *orphan)
{
    hth_journal_take_cancel(&orphan->take);
    DL_DELETE(orphan->front->orphans, orphan);
    free(orphan);
}

static void on_orphan_taken(hth_journal_taken taken, const void *first, size_t n_first, const void *rest, size_t n_rest,
                            hth_journal *journal, void *user_data)
{
    hth_orphan *orphan = user_data;

    if (taken == HTH_JOURNAL_TAKEN)
        (void)go_on(orphan->front, first, n_first, rest, n_rest, journal); /* or the next look finds it again */
    orphan_free(orphan);
}

static void on_orphan_looked(hth_journal_taken taken, const void *first, size_t n_first, const void *rest,
                             size_t n_rest, hth_journal *journal, void *user_data)
{
    hth_orphan *orphan = user_data;
    hth_journaled journaled;
    bool is_known;

    (void)rest; /* a look brings only the first piece */
    (void)n_rest;
    (void)journal;
    orphan->take.on_taken = on_orphan_taken;
    is_known = taken == HTH_JOURNAL_TAKEN && hth_journaled_read(first, n_first, &journaled);
    if (is_known)
        hth_journaled_deinit(&journaled);
    if (!is_known ||
        !hth_journal_take_begin(orphan->front->fleet.journals, orphan->name, HTH_JOURNAL_IF_ORPHAN, &orphan->take))
        orphan_free(orphan);
}

/* An on_orphan of hth_journals_options. */
static void on_orphan(const char *name, void *user_data)
{
    hth_front *front = user_data;
    hth_orphan *orphan = front->is_draining || !front->proxy ? NULL : calloc(1, sizeof(*orphan));

    if (!orphan)
        return; /* the next look finds it again */
    orphan->front = front;
    orphan->take = (hth_journal_take){ .on_taken = on_orphan_looked, .user_data = orphan };
    (void)snprintf(orphan->name, sizeof(orphan->name), "%s", name); /* fits */
    DL_APPEND(front->orphans, orphan);
    if (!hth_journal_take_begin(front->fleet.journals, name, HTH_JOURNAL_LOOK, &orphan->take))
        orphan_free(orphan);
}

/* ---- beginning and end ---- */

hearth_status hth_front_takeover_begin(hth_front *front, hearth_error *err)
{
    hth_fleet *fleet = &front->fleet;

    if (!fleet->store || !fleet->shares_secret)
        return HEARTH_OK;
    fleet->shared = hth_shared_records_new(fleet->store, fleet->id, fleet->secret);
    if (!fleet->shared)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the records of the fleet");
    return hth_journals_new(&(hth_journals_options){ .base = front->base,
                                                     .store = fleet->store,
                                                     .fleet = fleet->id,
                                                     .name = fleet->name,
                                                     .epoch = fleet->epoch,
                                                     .secret = fleet->secret,
                                                     .keep_ms = front->options->options->kept.keep_ms,
                                                     .log = &front->log,
                                                     .on_orphan = on_orphan,
                                                     .user_data = front },
                            &fleet->journals, err);
}

void hth_front_takeover_end(hth_front *front)
{
    while (front->orphans)
        orphan_free(front->orphans); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list before it is freed */
    hth_journals_free(front->fleet.journals);
    hth_shared_records_free(front->fleet.shared);
}

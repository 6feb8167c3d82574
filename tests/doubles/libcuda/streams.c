/* Streams as threads, events, host functions, and graphs of captured work. */
#define _GNU_SOURCE
#include "double.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct event { unsigned flags; struct work *record; struct graph *capturing; struct past past; };

/* While it is recorded: in which of CUDA's modes, by which thread, whether it is spoilt. */
struct graph {
    struct work **nodes;
    int count, streams;
    struct work *last;
    int mode, spoilt;
    pthread_t thread;
};

enum { GLOBAL, THREAD_LOCAL, RELAXED };
static _Thread_local int mode_here = GLOBAL;

/* ---- work: what a stream does, once all that it comes after is done -------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

struct work *new_work(void (*run)(struct work *), int kind)
{
    struct work *made = calloc(1, sizeof *made);
    made->run = run, made->references = 1, made->kind = kind;
    return made;
}

static struct work *hold(struct work *work)
{
    if (work) work->references++;
    return work;
}

static void let_go(struct work *work)
{
    if (!work || --work->references) return;
    for (int i = 0; i < work->after_count; i++) let_go(work->after[i]);
    free(work->after);
    if (work->drop) work->drop(work);
    free(work);
}

static void come_after(struct work *work, struct work *earlier)
{
    if (!earlier || earlier->done) return;
    work->after = realloc(work->after, (work->after_count + 1) * sizeof *work->after);
    work->after[work->after_count++] = hold(earlier);
}

static int is_ready(struct work *work)
{
    for (int i = 0; i < work->after_count; i++)
        if (!work->after[i]->done) return 0;
    return 1;
}

static void *serve(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&big);
    for (;;) {
        while (!(stream->first && is_ready(stream->first))) {
            if (stream->destroyed && !stream->first) break;
            pthread_cond_wait(&changed, &big);
        }
        struct work *work = stream->first;
        if (!work) break;
        pthread_mutex_unlock(&big);
        if (work->run && !sticky) work->run(work);
        pthread_mutex_lock(&big);
        work->done = 1, work->reached = now();
        stream->first = work->next;
        if (!stream->first) stream->last_queued = NULL;
        for (int i = 0; i < work->after_count; i++) let_go(work->after[i]);
        work->after_count = 0;
        let_go(work);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&big);
    return NULL;
}

static struct stream *new_stream(struct context *context, unsigned flags, int priority)
{
    struct stream *made = calloc(1, sizeof *made);
    made->context = context, made->flags = flags, made->priority = priority;
    pthread_create(&made->thread, NULL, serve, made);
    pthread_detach(made->thread);
    return made;
}

static struct stream *null_of(struct context *context)
{
    if (!context->null) context->null = new_stream(context, 0, 0);
    return context->null;
}

/* The calling thread's own streams, one of each device's context. */
static __thread struct stream *own[MOST_DEVICES];

static struct stream *own_of(struct context *context)
{
    struct stream **found = &own[context->device];
    if (!*found) {
        *found = new_stream(context, 0, 0);
        (*found)->next = context->streams, context->streams = *found;
    }
    return *found;
}

/* 0 and 1: the legacy default stream; 2: the thread's own; else one that was made. `big` is held. */
CUresult find_stream(uint64_t handle, struct stream **found)
{
    *found = NULL;
    if (handle == 0 || handle == 1) {
        *found = null_of(current);
        return SUCCESS;
    }
    if (handle == 2) {
        *found = own_of(current);
        return SUCCESS;
    }
    for (int device = 0; device < device_count; device++)
        for (struct stream *at = devices[device].primary.streams; at; at = at->next)
            if ((uint64_t)at == handle && !at->destroyed) *found = at;
    return *found ? SUCCESS : INVALID_HANDLE;
}

/* Whether a stream that the default stream waits for is recorded. */
static int is_capturing(struct context *context)
{
    for (struct stream *at = context->streams; at; at = at->next)
        if (at->capturing && !(at->flags & 1)) return 1;
    return 0;
}

/* Spoil the recordings of a context's blocking streams, or of all; whether there were any. */
static int spoil(struct context *context, int all)
{
    int found = 0;
    for (struct stream *at = context->streams; at; at = at->next)
        if (at->capturing && (all || !(at->flags & 1))) found = at->capturing->spoilt = 1;
    return found;
}

CUresult prohibited(void)
{
    CUresult status = SUCCESS;
    pthread_mutex_lock(&big);
    for (int device = 0; device < device_count; device++)
        for (struct stream *at = devices[device].primary.streams; at; at = at->next) {
            struct graph *graph = at->capturing;
            if (!graph || mode_here == RELAXED) continue;
            int is_own = pthread_equal(graph->thread, pthread_self());
            if (is_own ? graph->mode != RELAXED : graph->mode == GLOBAL && mode_here == GLOBAL)
                graph->spoilt = 1, status = STREAM_CAPTURED;
        }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER(0);
    int before = mode_here;
    if (*mode < GLOBAL || *mode > RELAXED) return INVALID_VALUE;
    mode_here = *mode, *mode = before;
    return SUCCESS;
}

/* The end of a stream, or its state, is asked for: of one that is recorded that spoils it, as does
 * that of the default one where it encompasses one that is. */
static CUresult look_at(struct stream *stream)
{
    if (stream->capturing) {
        int was_spoilt = stream->capturing->spoilt;
        stream->capturing->spoilt = 1;
        return was_spoilt ? SPOILT : STREAM_CAPTURED;
    }
    return stream == stream->context->null && spoil(stream->context, 0) ? IMPLICIT : SUCCESS;
}

static void keep_in_graph(struct graph *graph, struct work *work)
{
    graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *graph->nodes);
    graph->nodes[graph->count++] = work;
}

CUresult submit(struct stream *stream, struct work *work, int wait)
{
    CUresult status = SUCCESS;
    if (idle) {
        if (work->run) work->run(work);
        work->done = 1;
    }
    pthread_mutex_lock(&big);
    struct context *context = stream->context;
    if (idle) {
        work->reached = now();
        let_go(stream->last);
        stream->last = work;
        pthread_mutex_unlock(&big);
        return sticky;
    }
    if (stream->capturing) {
        if (wait || stream->capturing->spoilt) {
            let_go(work);
            status = stream->capturing->spoilt ? SPOILT : STREAM_CAPTURED;
            stream->capturing->spoilt = 1;
        } else {
            keep_in_graph(stream->capturing, work);
            stream->past.work[stream->place]++;
        }
        pthread_mutex_unlock(&big);
        return status;
    }
    if (stream == context->null) {
        if (spoil(context, 0)) {
            let_go(work);
            pthread_mutex_unlock(&big);
            return IMPLICIT;
        }
        for (struct stream *at = context->streams; at; at = at->next)
            if (!(at->flags & 1)) come_after(work, at->last);
    } else if (context->null && !(stream->flags & 1))
        come_after(work, context->null->last);
    let_go(stream->last);
    stream->last = hold(work);
    if (wait) hold(work);
    if (stream->last_queued) stream->last_queued->next = work;
    else stream->first = work;
    stream->last_queued = work;
    pthread_cond_broadcast(&changed);
    if (wait) {
        while (!work->done) pthread_cond_wait(&changed, &big);
        let_go(work);
    }
    pthread_mutex_unlock(&big);
    return wait ? sticky : SUCCESS;
}

static void wait_for(struct work *work)
{
    hold(work);
    while (work && !work->done) pthread_cond_wait(&changed, &big);
    let_go(work);
}

/* ---- streams -------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreateWithPriority(struct stream **made, unsigned flags, int priority)
{
    ENTER(1);
    if (flags > 1) return INVALID_VALUE;
    *made = new_stream(current, flags, priority);
    pthread_mutex_lock(&big);
    (*made)->next = current->streams, current->streams = *made;
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

EXPORT CUresult cuStreamGetPriority(uint64_t handle, int *priority)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status) *priority = stream->priority;
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuStreamDestroy(uint64_t handle)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = handle < 3 ? INVALID_HANDLE : find_stream(handle, &stream);
    if (!status) {
        stream->destroyed = 1;  /* stays in the list: the default stream waits for its work */
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuStreamSynchronize(uint64_t handle)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status) status = look_at(stream);
    if (!status) {
        wait_for(stream->last);
        if (stream == current->null)
            for (struct stream *at = current->streams; at; at = at->next)
                if (!(at->flags & 1)) wait_for(at->last);
    }
    pthread_mutex_unlock(&big);
    return status ? status : sticky;
}

EXPORT CUresult cuStreamQuery(uint64_t handle)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status) status = look_at(stream);
    if (!status && stream->last && !stream->last->done) status = NOT_READY;
    pthread_mutex_unlock(&big);
    return status;
}

void wait_for_all(struct context *context)
{
    if (context->null) wait_for(context->null->last);
    for (struct stream *at = context->streams; at; at = at->next) wait_for(at->last);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = spoil(current, 1) ? STREAM_CAPTURED : SUCCESS;
    if (!status) wait_for_all(current);
    pthread_mutex_unlock(&big);
    return status ? status : sticky;
}

static void call_host(struct work *work)
{
    void (*function)(void *) = (void (*)(void *))work->pointers[0];
    inside_callback = 1;
    function(work->pointers[1]);
    inside_callback = 0;
}

EXPORT CUresult cuLaunchHostFunc(uint64_t handle, void *function, void *argument)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    pthread_mutex_unlock(&big);
    if (status) return status;
    struct work *work = new_work(call_host, A_CALL);
    work->pointers[0] = function, work->pointers[1] = argument;
    return submit(stream, work, 0);
}

/* ---- events --------------------------------------------------------------------------------- */

EXPORT CUresult cuEventCreate(struct event **made, unsigned flags)
{
    ENTER(1);
    *made = calloc(1, sizeof **made);
    (*made)->flags = flags;
    return SUCCESS;
}

EXPORT CUresult cuEventDestroy(struct event *event)
{
    ENTER(1);
    if (!event) return INVALID_HANDLE;
    pthread_mutex_lock(&big);
    let_go(event->record);
    pthread_mutex_unlock(&big);
    free(event);
    return SUCCESS;
}

EXPORT CUresult cuEventRecord(struct event *event, uint64_t handle)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status && stream->capturing) {
        event->capturing = stream->capturing, event->past = stream->past;
        pthread_mutex_unlock(&big);
        return SUCCESS;
    }
    pthread_mutex_unlock(&big);
    if (status) return status;
    struct work *work = new_work(NULL, A_CALL);
    pthread_mutex_lock(&big);
    let_go(event->record);
    event->record = hold(work), event->capturing = NULL;
    pthread_mutex_unlock(&big);
    return submit(stream, work, 0);
}

EXPORT CUresult cuStreamWaitEvent(uint64_t handle, struct event *event, unsigned flags)
{
    struct stream *stream;
    ENTER(1);
    if (flags) return INVALID_VALUE;
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    struct work *record = event->record;
    if (!status && event->capturing) {
        if (!stream->capturing) {
            memset(&stream->past, 0, sizeof stream->past);
            stream->capturing = event->capturing, stream->place = event->capturing->streams++;
        }
        for (int i = 0; i < MOST_RECORDED; i++)
            if (stream->past.work[i] < event->past.work[i])
                stream->past.work[i] = event->past.work[i];
        record = NULL;
    }
    struct work *work = NULL;
    if (!status && record && !stream->capturing) {
        work = new_work(NULL, A_CALL);
        come_after(work, record);
    }
    pthread_mutex_unlock(&big);
    return status || !work ? status : submit(stream, work, 0);
}

/* Of an event whose last record is recorded nothing can be told, as long as that goes on. */
static CUresult look_at_event(struct event *event)
{
    CUresult status = SUCCESS;
    for (int device = 0; event->capturing && device < device_count; device++)
        for (struct stream *at = devices[device].primary.streams; at; at = at->next)
            if (at->capturing == event->capturing)
                at->capturing->spoilt = 1, status = CAPTURED_EVENT;
    return status;
}

EXPORT CUresult cuEventSynchronize(struct event *event)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = look_at_event(event);
    if (!status) wait_for(event->record);
    pthread_mutex_unlock(&big);
    return status ? status : sticky;
}

EXPORT CUresult cuEventQuery(struct event *event)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = look_at_event(event);
    if (!status && event->record && !event->record->done) status = NOT_READY;
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, struct event *start, struct event *end)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = SUCCESS;
    if ((start->flags | end->flags) & 2 || !start->record || !end->record) status = INVALID_HANDLE;
    else if (!start->record->done || !end->record->done) status = NOT_READY;
    else *milliseconds = 1e3 * (end->record->reached - start->record->reached);
    pthread_mutex_unlock(&big);
    return status;
}

/* ---- graphs --------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamBeginCapture(uint64_t handle, int mode)
{
    struct stream *stream;
    ENTER(1);
    if (mode < GLOBAL || mode > RELAXED) return INVALID_VALUE;
    pthread_mutex_lock(&big);
    CUresult status = handle < 2 ? STREAM_CAPTURED : find_stream(handle, &stream);
    if (!status && stream->capturing) status = INVALID_VALUE;
    if (!status) {
        stream->capturing = calloc(1, sizeof *stream->capturing);
        stream->place = 0, stream->capturing->streams = 1;
        stream->capturing->mode = mode, stream->capturing->thread = pthread_self();
        memset(&stream->past, 0, sizeof stream->past);
    }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuStreamIsCapturing(uint64_t handle, int *answer)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status && stream == current->null && is_capturing(current)) status = IMPLICIT;
    if (!status) *answer = !stream->capturing ? 0 : stream->capturing->spoilt ? 2 : 1;
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuStreamEndCapture(uint64_t handle, struct graph **captured)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    *captured = NULL;
    if (!status && !stream->capturing) status = INVALID_VALUE;
    if (!status && stream->capturing->mode != RELAXED
        && !pthread_equal(stream->capturing->thread, pthread_self()))
        status = WRONG_THREAD;
    if (!status) {
        struct graph *graph = *captured = stream->capturing;
        if (graph->spoilt) status = SPOILT;
        for (struct stream *at = stream->context->streams; at; at = at->next)
            if (at->capturing == graph) {
                at->capturing = NULL;
                if (at->past.work[at->place] > stream->past.work[at->place]) status = UNJOINED;
            }
        if (status) *captured = NULL;
    }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuGraphInstantiateWithFlags(struct graph **made, struct graph *graph, uint64_t flags)
{
    ENTER(1);
    (void)flags;
    *made = calloc(1, sizeof **made);
    pthread_mutex_lock(&big);
    for (int i = 0; i < graph->count; i++) keep_in_graph(*made, hold(graph->nodes[i]));
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

EXPORT CUresult cuGraphGetNodes(struct graph *graph, struct work **nodes, size_t *count)
{
    ENTER(1);
    for (int i = 0; nodes && i < graph->count && i < (int)*count; i++) nodes[i] = graph->nodes[i];
    *count = graph->count;
    return SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(struct work *node, int *kind)
{
    ENTER(1);
    *kind = node->kind;
    return SUCCESS;
}

EXPORT CUresult cuGraphDestroy(struct graph *graph)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    for (int i = 0; i < graph->count; i++) let_go(graph->nodes[i]);
    pthread_mutex_unlock(&big);
    /* Its address stays its own, as events may have it yet. */
    free(graph->nodes);
    return SUCCESS;
}

/* Launches that are not done yet keep it: here for ever. */
EXPORT CUresult cuGraphExecDestroy(struct graph *graph)
{
    ENTER(1);
    return graph ? SUCCESS : INVALID_VALUE;
}

static void replay(struct work *work)
{
    struct graph *graph = work->pointers[0];
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i]->run) graph->nodes[i]->run(graph->nodes[i]);
}

EXPORT CUresult cuGraphLaunch(struct graph *graph, uint64_t handle)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    struct work *work = new_work(replay, A_CALL);
    work->pointers[0] = graph;
    if (!status) {
        come_after(work, graph->last);
        let_go(graph->last);
        graph->last = hold(work);
    }
    pthread_mutex_unlock(&big);
    return status ? status : submit(stream, work, 0);
}

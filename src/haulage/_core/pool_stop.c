/* What stops blocks that run.

   A thread that runs blocks is sent SIGURG, whose handler jumps to the end of its batch as that of a
   crash does, from wherever it is: so loops need no looks at a flag. It cannot leave while it holds
   a lock, which its record says; then it goes on, and is sent the signal again.

   Python calls the handlers of its signals in its main thread only, between two of its instructions.
   While that thread runs blocks, the watcher sends it SIGURG every TICK, where it has been in one
   call since the last time. The handler then lets Python call its handlers, as if the kernel had
   called them at that place, and leaves the kernel if one has raised an exception. After IDLE ticks
   without a launch the watcher sleeps until the next one.

   Where pool_guard.c catches nothing there is none of this: blocks that run are waited for. */

#if defined(__linux__)
#define _GNU_SOURCE /* pthread_setname_np */
#endif

#include "pool_internal.h"

static void drop_chunks(job *it)
{
    atomic_store(&it->claimed, NONE_LEFT);
    take_out(it);
}

#if defined(__linux__)

#include <time.h>
#include <unistd.h>

#include "pool_record.h"

enum {
    TICK_MICROSECONDS = 100000,
    IDLE = 100,
    /* Nanoseconds until a thread that cannot leave is asked again. */
    AGAIN = 2000000,
    WATCHERS_STACK = 256 << 10,
};

static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static record *records; /* of all threads */

static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake_up = PTHREAD_COND_INITIALIZER;
static atomic_bool asleep; /* whether the watcher sleeps, or is about to */
static bool watching;

static _Atomic uint64_t main_thread;
static int (*run_handlers)(void);
static struct sigaction urgent_before;

/* In a child the only thread is the one that forked. */
void prepare_stop(void)
{
    pthread_mutex_init(&records_lock, NULL);
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&wake_up, NULL);
    watching = false;
    atomic_store(&asleep, false);
    atomic_store(&main_thread, 0);
    records = here();
    if (records) records->next = NULL;
}

/* ---- records ---------------------------------------------------------------------------------- */

void list_record(record *it)
{
    it->thread = pthread_self();
    pthread_mutex_lock(&records_lock);
    it->next = records;
    records = it;
    pthread_mutex_unlock(&records_lock);
}

void unlist_record(record *it)
{
    pthread_mutex_lock(&records_lock);
    record **link = &records;
    while (*link && *link != it) link = &(*link)->next;
    if (*link) *link = it->next;
    pthread_mutex_unlock(&records_lock);
}

/* The record of a thread, or NULL; the lock is held. */
static record *record_of(uint64_t thread)
{
    record *it = records;
    while (it && (uint64_t)it->thread != thread) it = it->next;
    return it;
}

void note_job(record *it, job *on)
{
    if (it) atomic_store(&it->in, on);
}

/* ---- calls of Python's ------------------------------------------------------------------------ */

static void wake_watcher(void)
{
    pthread_mutex_lock(&sleep_lock);
    atomic_store(&asleep, false);
    pthread_cond_broadcast(&wake_up);
    pthread_mutex_unlock(&sleep_lock);
}

record *begin_run(haulage_slot *slot)
{
    record *it = here_or_made();
    if (!it) return NULL;
    /* Nobody else writes it. */
    uint64_t call = atomic_load_explicit(&it->call, memory_order_relaxed);
    atomic_store_explicit(&it->call, call + 1, memory_order_release);
    it->slot = slot;
    if (atomic_load_explicit(&asleep, memory_order_relaxed)) wake_watcher();
    return it;
}

bool is_to_stop(record *it)
{
    return atomic_load_explicit(&it->to_stop, memory_order_acquire) ==
           atomic_load_explicit(&it->call, memory_order_relaxed);
}

int64_t end_run(record *it, haulage_slot *slot, int64_t fault)
{
    if (it) {
        if (is_to_stop(it)) slot->left = 1;
        uint64_t call = atomic_load_explicit(&it->call, memory_order_relaxed);
        atomic_store_explicit(&it->call, call + 1, memory_order_release);
    }
    return slot->left || slot->job ? HAULAGE_LEFT : fault;
}

bool haulage_stop(uint64_t thread)
{
    pthread_mutex_lock(&records_lock);
    record *it = record_of(thread);
    if (it) {
        atomic_store(&it->to_stop, atomic_load(&it->call));
        pthread_kill(it->thread, URGENT);
    }
    pthread_mutex_unlock(&records_lock);
    return it;
}

static void signal_workers(const job *of)
{
    pthread_mutex_lock(&records_lock);
    for (record *it = records; it; it = it->next)
        if (atomic_load(&it->in) == of) pthread_kill(it->thread, URGENT);
    pthread_mutex_unlock(&records_lock);
}

int64_t haulage_cancel(haulage_slot *slot, bool by_force)
{
    record *mine = begin_run(slot);
    job *it = slot->job;
    drop_chunks(it);
    while (atomic_load(&it->users)) {
        /* By now it may be to be by force. */
        by_force |= mine && is_to_stop(mine);
        if (by_force) {
            atomic_store(&it->stop, true);
            signal_workers(it);
        }
        wait_for_workers(it, AGAIN);
    }
    int64_t fault = give_back(slot);
    end_run(mine, slot, fault);
    return fault;
}

/* ---- the handler ------------------------------------------------------------------------------ */

/* Whether one of Python's handlers has raised an exception; they may run kernels, with the same
   record. */
static bool handlers_raise(record *it)
{
    batch runs = it->runs;
    haulage_slot *slot = it->slot;
    jmp_buf *landing = atomic_load(&it->landing);
    uint64_t call = atomic_load(&it->call);
    atomic_store(&it->landing, NULL);
    bool raised = run_handlers();
    it->runs = runs;
    it->slot = slot;
    atomic_store(&it->call, call);
    atomic_store(&it->landing, landing);
    if (raised) slot->left = 1;
    return raised;
}

static bool leaves(record *it)
{
    const job *worked_on = atomic_load(&it->in);
    if (worked_on) return atomic_load(&worked_on->stop);
    if (is_to_stop(it)) return true;
    return (uint64_t)it->thread == atomic_load(&main_thread) && handlers_raise(it);
}

static void on_urgent(int signal, siginfo_t *info, void *context)
{
    if (info->si_code != SI_TKILL || info->si_pid != getpid()) { /* not the pool's */
        if (urgent_before.sa_handler != SIG_DFL && urgent_before.sa_handler != SIG_IGN)
            urgent_before.sa_sigaction(signal, info, context);
        return;
    }
    record *it = here();
    if (!it || !atomic_load(&it->landing)) return;
    if (atomic_load(&it->busy) != FREE)
        atomic_store(&it->busy, ASKED); /* it is sent again when the lock is free */
    else if (leaves(it))
        leave_batch(it, STOPPED);
}

static void install(void)
{
    struct sigaction found, ours = {.sa_sigaction = on_urgent,
                                    .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigaction(URGENT, NULL, &found);
    if (found.sa_flags & SA_SIGINFO && found.sa_sigaction == on_urgent) return;
    sigaction(URGENT, &ours, &urgent_before);
}

/* ---- the watcher ------------------------------------------------------------------------------ */

static void sleep_until_woken(void)
{
    pthread_mutex_lock(&sleep_lock);
    while (atomic_load(&asleep)) pthread_cond_wait(&wake_up, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

/* Sends the signal if the main thread is in the call `*seen`, which becomes its call of now; whether
   it has run something since then. */
static bool look_at_main(uint64_t *seen)
{
    bool active = false;
    pthread_mutex_lock(&records_lock);
    record *it = record_of(atomic_load(&main_thread));
    if (it) {
        uint64_t call = atomic_load(&it->call);
        bool inside = atomic_load(&it->landing);
        active = inside || call != *seen;
        if (inside && call == *seen) pthread_kill(it->thread, URGENT);
        *seen = call;
    }
    pthread_mutex_unlock(&records_lock);
    return active;
}

static void *watch(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    for (int idle = 0;;) {
        const struct timespec tick = {.tv_nsec = TICK_MICROSECONDS * 1000L};
        nanosleep(&tick, NULL);
        idle = look_at_main(&seen) ? 0 : idle + 1;
        /* It says so one tick before it sleeps. */
        if (idle > IDLE) {
            sleep_until_woken();
            idle = 0;
        } else {
            atomic_store(&asleep, idle == IDLE);
        }
    }
    return NULL;
}

static bool start_watcher(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WATCHERS_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, watch, NULL) == 0;
    if (started) pthread_setname_np(thread, "haulage-watch");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

void haulage_watch(uint64_t of_python, int (*handlers)(void))
{
    run_handlers = handlers;
    atomic_store(&main_thread, of_python);
    if (!here_or_made()) return;
    install();
    if (!watching) watching = start_watcher();
}

#else

void prepare_stop(void) {}

record *begin_run(haulage_slot *slot)
{
    (void)slot;
    return NULL;
}

int64_t end_run(record *it, haulage_slot *slot, int64_t fault)
{
    (void)it;
    return slot->left || slot->job ? HAULAGE_LEFT : fault;
}

void note_job(record *it, job *on)
{
    (void)it;
    (void)on;
}

bool haulage_stop(uint64_t thread)
{
    (void)thread;
    return false;
}

void haulage_watch(uint64_t of_python, int (*handlers)(void))
{
    (void)of_python;
    (void)handlers;
}

int64_t haulage_cancel(haulage_slot *slot, bool by_force)
{
    (void)by_force;
    job *it = slot->job;
    drop_chunks(it);
    while (atomic_load(&it->users)) wait_for_workers(it, UINT64_C(50000000));
    return give_back(slot);
}

#endif

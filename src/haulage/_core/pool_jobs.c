/* The workers, the list of jobs, and how a grid's blocks are shared out.

   What a kernel's blocks took last decides who is asked: nobody for what one thread has done before
   others could begin, workers that are awake for more, and those that sleep only for what is worth
   the time that waking takes. If it takes longer than that after all, the rest is shared out. This
   is not for kernels one of whose blocks may wait for another one (`by_all`). */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "pool_internal.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#define PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* How often an idle worker looks for a new job before it sleeps: about 50 microseconds. */
enum { SPINS = 1500 };

/* Workers run code whose blocks keep slots and shared memory on the stack, and that calls itself.
   What no frame of theirs steps over lies below, and can be neither read nor written. */
enum { STACK_BYTES = 16 << 20, STACK_GUARD = 1 << 20 };

/* A chunk has at most FINE blocks, or those that take SHORT, unless that made more than MOST of
   them: a chunk costs about 0.1 microseconds, and more where it has copies of what it adds to, and
   Ctrl-C waits for one. */
enum { FINE = 64, MOST = 512 };

/* Nanoseconds. */
#define SECOND UINT64_C(1000000000)
#define NEVER UINT64_MAX
enum {
    SHORT = 1000000,
    /* After which the caller looks after signals. */
    BUDGET = 50000000,
    /* Below which two threads are slower than one. */
    ALONE = 4000,
    /* To wake a worker takes the launching thread about 15 microseconds, and the worker 30. */
    WORTH_WAKING = 40000,
    /* After the beginning of what should be short, others are called. */
    SURPRISE = 20000,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t new_job = PTHREAD_COND_INITIALIZER;
static pthread_cond_t job_left = PTHREAD_COND_INITIALIZER;
static job *jobs; /* under the mutex, as are the sleepers, whom only a broadcast wakes */
static uint64_t sleepers;
static uint64_t target = 32;
/* Grows with each job that is put in the list. */
static _Alignas(LINE) _Atomic uint32_t version;

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t divided_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static uint64_t time_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t now(void) { return time_of(CLOCK_MONOTONIC); }

void haulage_prepare(uint64_t chunks)
{
    target = chunks;
    jobs = NULL;
    sleepers = 0;
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&new_job, NULL);
    pthread_cond_init(&job_left, NULL);
    prepare_stop();
}

/* ---- what kernels cost ------------------------------------------------------------------------ */

/* What blocks of a kernel took when it last ran: 1024 times the nanoseconds of a block. Two kernels
   may share a place, and two threads write it at once: it only says what to expect. */
typedef struct {
    _Atomic(uintptr_t) entry;
    _Atomic uint64_t each;
} cost;

enum { PLACES = 1024 };
static _Alignas(LINE) cost costs[PLACES];

static cost *cost_of(uintptr_t entry) { return &costs[(entry >> 6 ^ entry >> 12) % PLACES]; }

/* The nanoseconds that so many blocks may take one thread; NEVER if nothing is known. */
static uint64_t expected(haulage_entry entry, uint64_t blocks)
{
    cost *it = cost_of((uintptr_t)entry);
    uint64_t all;
    if (atomic_load_explicit(&it->entry, memory_order_relaxed) != (uintptr_t)entry) return NEVER;
    uint64_t each = atomic_load_explicit(&it->each, memory_order_relaxed);
    return __builtin_mul_overflow(each, blocks, &all) ? NEVER : all >> 10;
}

static void note_cost(haulage_entry entry, uint64_t blocks, uint64_t ns)
{
    cost *it = cost_of((uintptr_t)entry);
    atomic_store_explicit(&it->entry, (uintptr_t)entry, memory_order_relaxed);
    atomic_store_explicit(&it->each, (ns << 10) / blocks, memory_order_relaxed);
}

/* ---- a job ------------------------------------------------------------------------------------ */

static void run_chunk(job *it, uint64_t index)
{
    uint64_t first = it->first + index * it->chunk;
    int64_t fault =
        guarded(it->entry, it->launch, first, smaller(first + it->chunk, it->end));
    if (fault == 0) return;
    int64_t none = 0;
    atomic_compare_exchange_strong(&it->fault, &none, fault);
    if (fault == HAULAGE_STOPPED) atomic_store(&it->claimed, NONE_LEFT);
}

static void wake_workers(void)
{
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&new_job);
    pthread_mutex_unlock(&mutex);
}

static bool claim(job *it, uint64_t *index)
{
    *index = atomic_fetch_add(&it->claimed, 1);
    return *index < it->chunks;
}

/* Runs chunks until none is left (true) or the deadline has passed. Where chunks are left at the
   time `alarm`, it wakes the workers that sleep. */
static bool run_until(job *it, uint64_t begun, uint64_t alarm, uint64_t deadline)
{
    uint64_t mine = 0, time = begun, index;
    while (claim(it, &index)) {
        run_chunk(it, index);
        mine++;
        time = now();
        if (time > alarm) {
            wake_workers();
            alarm = NEVER;
        }
        if (time > deadline) return false;
    }
    if (mine) note_cost(it->entry, mine * it->chunk, time - begun);
    return true;
}

void take_out(job *it)
{
    pthread_mutex_lock(&mutex);
    job **link = &jobs;
    while (*link && *link != it) link = &(*link)->next;
    if (*link) *link = it->next;
    pthread_mutex_unlock(&mutex);
}

/* False if the time is over before the last worker has left. The mutex is held. */
static bool wait_until_left(job *it, uint64_t limit)
{
    /* Conditions are timed on CLOCK_REALTIME. */
    uint64_t end = time_of(CLOCK_REALTIME) + limit;
    struct timespec until = {.tv_sec = (time_t)(end / SECOND), .tv_nsec = (long)(end % SECOND)};
    while (atomic_load(&it->users))
        if (pthread_cond_timedwait(&job_left, &mutex, &until)) return !atomic_load(&it->users);
    return true;
}

void wait_for_workers(job *it, uint64_t limit)
{
    pthread_mutex_lock(&mutex);
    wait_until_left(it, limit);
    pthread_mutex_unlock(&mutex);
}

int64_t give_back(haulage_slot *slot)
{
    job *it = slot->job;
    int64_t fault = atomic_load(&it->fault);
    slot->job = NULL;
    free(it);
    return fault;
}

/* All chunks are claimed: waits until the workers have left the job, and gives it back. */
static int64_t leave(haulage_slot *slot)
{
    job *it = slot->job;
    take_out(it);
    int spins = 0;
    while (atomic_load(&it->users) && ++spins < SPINS) PAUSE();
    if (atomic_load(&it->users)) {
        pthread_mutex_lock(&mutex);
        bool left = wait_until_left(it, BUDGET);
        pthread_mutex_unlock(&mutex);
        if (!left) return 0;
    }
    return give_back(slot);
}

/* ---- the workers ------------------------------------------------------------------------------ */

/* A job with unclaimed chunks, or NULL; the mutex is held. */
static job *find_job(void)
{
    job *it = jobs;
    while (it && atomic_load(&it->claimed) >= it->chunks) it = it->next;
    return it;
}

/* The mutex is held before and after. */
static void work_on(job *it, record *mine)
{
    uint64_t index;
    atomic_fetch_add(&it->users, 1);
    pthread_mutex_unlock(&mutex);
    note_job(mine, it);
    while (claim(it, &index)) run_chunk(it, index);
    note_job(mine, NULL);
    pthread_mutex_lock(&mutex);
    /* From here on the job may be gone. */
    if (atomic_fetch_sub(&it->users, 1) == 1) pthread_cond_broadcast(&job_left);
}

/* Returns when there may be a job that was not there at `seen`. The mutex is held before and
   after. */
static void wait_for_job(uint32_t seen)
{
    pthread_mutex_unlock(&mutex);
    int spins = 0;
    while (atomic_load(&version) == seen && ++spins < SPINS) PAUSE();
    pthread_mutex_lock(&mutex);
    while (atomic_load(&version) == seen) {
        sleepers++;
        pthread_cond_wait(&new_job, &mutex);
        sleepers--;
    }
}

static void *work(void *unused)
{
    (void)unused;
    record *mine = here_or_made();
    pthread_mutex_lock(&mutex);
    for (;;) {
        uint32_t seen = atomic_load(&version);
        job *it = find_job();
        if (it)
            work_on(it, mine);
        else
            wait_for_job(seen);
    }
    return NULL;
}

int haulage_start(int workers)
{
    int started = 0;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES + STACK_GUARD);
    pthread_attr_setguardsize(&attributes, STACK_GUARD);
    /* They take no signals but the pool's own, so Ctrl-C stays with the main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < workers && pthread_create(&thread, &attributes, work, NULL) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* ---- the launching thread --------------------------------------------------------------------- */

static int64_t take_part(haulage_slot *slot, uint64_t begun, uint64_t alarm)
{
    return run_until(slot->job, begun, alarm, begun + BUDGET) ? leave(slot) : 0;
}

/* Puts a job into the list; whether all workers are called, or awake. */
static bool put_in(job *it, uint64_t ns)
{
    pthread_mutex_lock(&mutex);
    it->next = jobs;
    jobs = it;
    atomic_fetch_add(&version, 1);
    bool called = sleepers == 0;
    if (!called && ns > WORTH_WAKING) {
        pthread_cond_broadcast(&new_job);
        called = true;
    }
    pthread_mutex_unlock(&mutex);
    return called;
}

/* Makes a job of the blocks [first, end) and takes part in it; `fault` is that of the others. */
static int64_t share(haulage_slot *slot, haulage_entry entry, const void *launch, uint64_t first,
                     uint64_t end, int64_t fault, uint64_t ns)
{
    uint64_t blocks = end - first;
    job *it = calloc(1, sizeof *it);
    if (!it) { /* this thread does it all */
        int64_t of_rest = guarded(entry, launch, first, end);
        return fault ? fault : of_rest;
    }
    it->entry = entry;
    it->launch = launch;
    it->first = first;
    it->end = end;
    uint64_t last = expected(entry, blocks);
    uint64_t fine = last == NEVER ? FINE : larger(FINE, blocks / (last / SHORT + 1));
    it->chunk = larger(smaller(divided_up(blocks, target), fine), divided_up(blocks, MOST));
    it->chunks = divided_up(blocks, it->chunk);
    atomic_init(&it->fault, fault);
    slot->job = it;
    bool called = put_in(it, ns);
    uint64_t begun = now();
    return take_part(slot, begun, called ? NEVER : begun + SURPRISE);
}

/* Too little work for two threads if it takes what it took before, so this one begins alone. */
static int64_t run_alone(haulage_slot *slot, haulage_entry entry, const void *launch,
                         uint64_t blocks)
{
    uint64_t begun = now(), piece = blocks / 8 + 1, last = 0;
    int64_t fault = 0;
    for (;;) {
        uint64_t first = last;
        last = smaller(first + piece, blocks);
        int64_t one = guarded(entry, launch, first, last);
        if (one == HAULAGE_STOPPED) return one;
        if (fault == 0) fault = one;
        uint64_t time = now();
        if (last == blocks) {
            note_cost(entry, blocks, time - begun);
            return fault;
        }
        if (time > begun + SURPRISE) return share(slot, entry, launch, last, blocks, fault, NEVER);
    }
}

static int64_t run_grid(haulage_entry entry, const void *launch, haulage_slot *slot, bool by_all)
{
    const uint32_t *extents = launch;
    uint64_t blocks = (uint64_t)extents[0] * extents[1] * extents[2];
    if (blocks <= 1) return guarded(entry, launch, 0, blocks);
    uint64_t ns = by_all ? NEVER : expected(entry, blocks);
    if (ns < ALONE) return run_alone(slot, entry, launch, blocks);
    return share(slot, entry, launch, 0, blocks, 0, ns);
}

int64_t haulage_run(haulage_entry entry, const void *launch, haulage_slot *slot, bool by_all)
{
    record *mine = begin_run(slot);
    return end_run(mine, slot, run_grid(entry, launch, slot, by_all));
}

int64_t haulage_run_blocks(haulage_entry entry, const void *launch, uint64_t first, uint64_t end,
                           haulage_slot *slot)
{
    record *mine = begin_run(slot);
    return end_run(mine, slot, share(slot, entry, launch, first, end, 0, NEVER));
}

int64_t haulage_resume(haulage_slot *slot)
{
    record *mine = begin_run(slot);
    return end_run(mine, slot, take_part(slot, now(), NEVER));
}

void haulage_run_each(const haulage_grid *grids, int64_t count, haulage_progress *progress,
                      haulage_slot *slot)
{
    record *mine = begin_run(slot);
    uint64_t deadline = now() + BUDGET;
    int64_t fault;
    do {
        const haulage_grid *it = &grids[progress->next++];
        fault = run_grid(it->entry, it->launch, slot, it->by_all != 0);
    } while (!slot->job && fault == 0 && progress->next < count && now() < deadline);
    progress->fault = end_run(mine, slot, fault);
}

int64_t haulage_phases(haulage_entry entry, void *launch, haulage_slot *slot,
                       const uint32_t *outcomes, uint64_t blocks, bool by_all)
{
    record *mine = begin_run(slot);
    uint32_t *word = (uint32_t *)((char *)launch + HAULAGE_MODE_AT);
    uint64_t deadline = now() + BUDGET;
    int64_t fault;
    for (;;) {
        fault = run_grid(entry, launch, slot, by_all);
        if (slot->job || fault) break;
        bool all_wait = true, some_gave_way = false;
        for (uint64_t i = 0; i < blocks; i++) {
            all_wait &= outcomes[i] >= HAULAGE_WAITS;
            some_gave_way |= outcomes[i] >= HAULAGE_GAVE_WAY;
        }
        if (!(all_wait || some_gave_way) || now() >= deadline) break;
        *word = (*word & ~(uint32_t)HAULAGE_MODES) |
                (some_gave_way ? HAULAGE_GO_ON : HAULAGE_RESUME);
    }
    return end_run(mine, slot, fault);
}

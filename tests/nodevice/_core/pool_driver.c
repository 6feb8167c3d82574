/* Uses the native worker threads without Python, so that sanitizers can watch them: `make sanitize`.
   It says nothing and returns 0 if all is right. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pool_native.h"

enum { WORKERS = 4, CALLERS = 3, BLOCKS = 3000, ROUNDS = 200 };

/* Whether ThreadSanitizer looks on. It runs handlers with all signals blocked, which they stay where
   one jumps out of it, and starts no threads in a child of threads. */
#if defined(__SANITIZE_THREAD__)
enum { TSAN = true };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { TSAN = true };
#else
enum { TSAN = false };
#endif
#else
enum { TSAN = false };
#endif

#define CHECK(condition)                                                     \
    do                                                                       \
        if (!(condition)) {                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                         \
        }                                                                    \
    while (0)

typedef struct {
    uint32_t grid[8];
    atomic_int *counts;
    uint64_t turns;
    char *bad;
} launch;

static launch of(uint32_t blocks, atomic_int *counts)
{
    return (launch){.grid = {blocks, 1, 1}, .counts = counts};
}

static void rest(long ns)
{
    const struct timespec time = {.tv_nsec = ns};
    nanosleep(&time, NULL);
}

static int64_t run_all(haulage_entry entry, const void *it, haulage_slot *slot)
{
    *slot = (haulage_slot){0};
    int64_t fault = haulage_run(entry, it, slot, false);
    while (fault == HAULAGE_LEFT && !slot->left) fault = haulage_resume(slot);
    return fault;
}

static int64_t count(const void *given, uint64_t first, uint64_t last)
{
    const launch *it = given;
    for (uint64_t i = first; i < last; i++) atomic_fetch_add(&it->counts[i], 1);
    return 0;
}

static int64_t count_slowly(const void *given, uint64_t first, uint64_t last)
{
    const launch *it = given;
    for (uint64_t i = first; i < last; i++) {
        rest(it->turns);
        atomic_fetch_add(&it->counts[i], 1);
    }
    return 0;
}

static void check_counts(atomic_int *counts, int blocks, int expected)
{
    for (int i = 0; i < blocks; i++) CHECK(atomic_exchange(&counts[i], 0) == expected);
}

static void *call(void *unused)
{
    static const uint32_t sizes[] = {1, 2, 40, 500, BLOCKS};
    atomic_int *counts = calloc(BLOCKS, sizeof *counts);
    haulage_slot slot;
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        launch it = of(sizes[i], counts);
        for (int round = 0; round < ROUNDS; round++) CHECK(run_all(count, &it, &slot) == 0);
        check_counts(counts, (int)sizes[i], ROUNDS);
    }
    free(counts);
    return NULL;
}

static void from_several_threads(void)
{
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) CHECK(!pthread_create(&threads[i], NULL, call, NULL));
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
}

static void longer_than_its_budget(void)
{
    static atomic_int counts[300];
    launch it = of(300, counts);
    haulage_slot slot = {0};
    it.turns = 2000000;
    CHECK(haulage_run(count_slowly, &it, &slot, false) == HAULAGE_LEFT);
    int64_t fault = HAULAGE_LEFT;
    while (fault == HAULAGE_LEFT) fault = haulage_resume(&slot);
    CHECK(fault == 0);
    check_counts(counts, 300, 1);
    /* What is dropped does not run, and what runs is waited for. */
    CHECK(haulage_run(count_slowly, &it, &slot, false) == HAULAGE_LEFT);
    haulage_cancel(&slot, false);
    int ran = 0;
    for (int i = 0; i < 300; i++) ran += atomic_exchange(&counts[i], 0);
    CHECK(0 < ran && ran < 300 && !slot.job);
}

static void one_after_another(void)
{
    static atomic_int counts[64];
    launch it = of(64, counts);
    haulage_grid grids[] = {{count, &it, 0}, {count, &it, 1}, {count, &it, 0}};
    haulage_progress progress = {0};
    haulage_slot slot = {0};
    haulage_run_each(grids, 3, &progress, &slot);
    CHECK(progress.next == 3 && progress.fault == 0);
    check_counts(counts, 64, 3);
}

typedef struct {
    uint64_t room[4];
    char *to;
    const char *from;
    uint64_t nbytes;
} copy_launch;

static void copies(void)
{
    enum { BYTES = 3 * HAULAGE_COPY_BYTES + 77, MARGIN = 64 };
    char *from = malloc(BYTES), *to = malloc(BYTES + MARGIN);
    for (int i = 0; i < BYTES; i++) from[i] = (char)(i * 31 >> 3);
    for (int shift = 0; shift < MARGIN; shift += 9)
        for (int way = 0; way < 2; way++) {
            const uint32_t grid[] = {4, 1, 1};
            copy_launch it = {.to = to + shift, .from = from, .nbytes = BYTES};
            haulage_slot slot;
            memcpy(it.room, grid, sizeof grid);
            memset(to, 0, BYTES + MARGIN);
            CHECK(!run_all(way ? haulage_copy : haulage_copy_past_caches, &it, &slot));
            CHECK(!memcmp(to + shift, from, BYTES));
        }
    free(from);
    free(to);
}

static int64_t tell(const void *given, uint64_t first, uint64_t last)
{
    (void)given;
    for (uint64_t i = first; i < last; i++) {
        const uint64_t cells[] = {i, 2 * i};
        haulage_message(i % 2 ? -1 : 1, cells, 2);
    }
    return 0;
}

static void messages(void)
{
    static char into[HAULAGE_MESSAGE_BYTES];
    launch it = of(1000, NULL);
    haulage_slot slot;
    uint32_t dropped;
    CHECK(run_all(tell, &it, &slot) == 0);
    for (int negative = 0; negative < 2; negative++) {
        CHECK(haulage_take_messages(negative, into, &dropped) == 500 * 24 && !dropped);
        CHECK(haulage_take_messages(negative, into, &dropped) == 0);
    }
}

static void let_signals_in(void)
{
    sigset_t all;
    sigfillset(&all);
    if (TSAN) pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

static int64_t crash_in_block_7(const void *given, uint64_t first, uint64_t last)
{
    const launch *it = given;
    let_signals_in();
    for (uint64_t i = first; i < last; i++) {
        char *own = haulage_alloc(64, 1000, true);
        own[999] = 1;
        if (i == 7) *(volatile char *)it->bad = 1;
        haulage_free(own);
    }
    return 0;
}

static void crashes(void)
{
    haulage_crash_report report;
    haulage_slot slot;
    for (uint32_t blocks = 8; blocks < 2000; blocks *= 3)
        for (int round = 0; round < 10; round++) {
            launch it = of(blocks, NULL);
            it.bad = (char *)4096;
            int64_t fault = run_all(crash_in_block_7, &it, &slot);
            CHECK(fault >= HAULAGE_CRASH && haulage_crash(fault, &report));
            CHECK(report.address == 4096 && report.signal == SIGSEGV);
            CHECK(report.first <= 7 && 7 < report.last && report.grid[0] == blocks);
            CHECK(report.entry == crash_in_block_7);
        }
}

static atomic_bool begun;

static int64_t endless(const void *given, uint64_t first, uint64_t last)
{
    (void)given;
    (void)first;
    (void)last;
    let_signals_in();
    for (;;) {
        atomic_store(&begun, true);
        haulage_free(haulage_alloc(64, 100, true));
    }
    return 0;
}

static pthread_t stopped_thread;

static void *stop(void *unused)
{
    (void)unused;
    while (!atomic_load(&begun)) rest(1000000);
    CHECK(haulage_stop((uint64_t)stopped_thread));
    return NULL;
}

static void stops(void)
{
    static const uint32_t sizes[] = {1, 100};
    for (int i = 0; i < 20; i++) {
        launch it = of(sizes[i % 2], NULL);
        haulage_slot slot;
        pthread_t other;
        atomic_store(&begun, false);
        stopped_thread = pthread_self();
        CHECK(!pthread_create(&other, NULL, stop, NULL));
        CHECK(run_all(endless, &it, &slot) == HAULAGE_LEFT && slot.left);
        if (slot.job) haulage_cancel(&slot, true);
        pthread_join(other, NULL);
        from_several_threads();
    }
}

/* What stands for the handlers of Python's signals: the third one raises. */
static int handlers_ran;
static int run_handlers(void)
{
    static atomic_int counts[64];
    launch it = of(64, counts);
    haulage_slot slot;
    CHECK(run_all(count, &it, &slot) == 0);
    check_counts(counts, 64, 1);
    return ++handlers_ran == 3;
}

static void handlers(void)
{
    launch it = of(1, NULL);
    haulage_slot slot;
    haulage_watch((uint64_t)pthread_self(), run_handlers);
    CHECK(run_all(endless, &it, &slot) == HAULAGE_LEFT && slot.left && !slot.job);
    CHECK(handlers_ran == 3);
    haulage_watch(0, run_handlers);
}

static void begin(void)
{
    haulage_prepare(32);
    CHECK(haulage_start(WORKERS) == WORKERS);
    haulage_watch(0, run_handlers);
}

static void in_a_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        begin();
        from_several_threads();
        if (haulage_has_guard) crashes();
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
    CHECK((haulage_guard(false) == 0) == haulage_has_guard);
    begin();
    from_several_threads();
    longer_than_its_budget();
    one_after_another();
    copies();
    messages();
    if (haulage_has_guard) {
        crashes();
        stops();
        handlers();
    }
    if (!TSAN) in_a_child();
    from_several_threads();
    return 0;
}

/* What counts the ways of threads through checked kernels.

   Each thread of the system has a row of counters of its own, so that none waits for another: a
   kernel adds to its row by plain operations, and a counter's value is the sum of its column. A row
   stays when its thread has ended, and the next new thread goes on with it. The pages of a row are
   there once they are written to. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check_native.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

typedef struct row {
    struct row *next;
    atomic_bool taken;
    uint64_t counts[HAULAGE_COUNTERS];
} row;

static _Atomic(row *) rows;
static _Thread_local row *mine;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_back(void *it)
{
    atomic_store_explicit(&((row *)it)->taken, false, memory_order_release);
}

static void make_key(void)
{
    if (pthread_key_create(&key, give_back)) abort();
}

static row *new_row(void)
{
    row *it = mmap(NULL, sizeof(row), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (it == MAP_FAILED) {
        /* A kernel is running, which cannot go on uncounted. */
        fputs("haulage: no memory for the counters of coverage\n", stderr);
        abort();
    }
    atomic_init(&it->taken, true);
    it->next = atomic_load(&rows);
    while (!atomic_compare_exchange_weak(&rows, &it->next, it)) {}
    return it;
}

uint64_t *haulage_check_counters(void)
{
    if (mine != NULL) return mine->counts;
    pthread_once(&once, make_key);
    for (row *it = atomic_load(&rows); it != NULL && mine == NULL; it = it->next) {
        bool taken = false;
        if (atomic_compare_exchange_strong(&it->taken, &taken, true)) mine = it;
    }
    if (mine == NULL) mine = new_row();
    pthread_setspecific(key, mine);
    return mine->counts;
}

uint64_t haulage_check_count(uint32_t counter)
{
    uint64_t sum = 0;
    for (row *it = atomic_load(&rows); it != NULL; it = it->next) sum += it->counts[counter];
    return sum;
}

/* What the files of the pool share. */

#ifndef HAULAGE_CPU_INTERNAL_H
#define HAULAGE_CPU_INTERNAL_H

#include <stdatomic.h>

#include "pool_native.h"

#pragma GCC visibility push(hidden)

/* Where a chunk's number says that no more is to be begun. */
#define NONE_LEFT (UINT64_C(1) << 62)

/* Bytes that several threads write keep this far from others. */
#define LINE 64

/* One launch. `users` counts the workers inside: it grows under the pool's mutex while the job is in
   the list, so once the job is out of it and `users` is 0, nobody touches it. */
typedef struct haulage_job {
    haulage_entry entry;
    const void *launch;
    uint64_t first, end; /* blocks */
    uint64_t chunk;      /* blocks in a chunk */
    uint64_t chunks;
    struct haulage_job *next;
    _Atomic bool stop; /* by force */
    char apart[LINE];
    _Atomic uint64_t claimed;
    char far_apart[LINE];
    _Atomic uint64_t users;
    _Atomic int64_t fault; /* the first one */
    char behind[LINE];
} job;

/* What is known of a thread that runs kernels. */
typedef struct record record;

/* ---- pool_jobs.c ---- */

/* Takes a job out of the list, if it is there. */
void take_out(job *it);

/* Waits until the workers may have left a job, at most so many nanoseconds. */
void wait_for_workers(job *it, uint64_t limit);

/* Frees a job that nobody is in, and empties the slot; returns its fault. */
int64_t give_back(haulage_slot *slot);

/* ---- pool_guard.c ---- */

/* Runs blocks; returns their fault, or the number of a crash. */
int64_t guarded(haulage_entry entry, const void *launch, uint64_t first, uint64_t last);

/* The calling thread's record; NULL if it has none. */
record *here(void);

/* The same, made if needed; NULL without memory, or where nothing is caught. */
record *here_or_made(void);

/* ---- pool_stop.c ---- */

void prepare_stop(void);
void list_record(record *it);
void unlist_record(record *it);

/* Around each call that runs blocks; `end_run` gives what the call returns. */
record *begin_run(haulage_slot *slot);
int64_t end_run(record *it, haulage_slot *slot, int64_t fault);

/* What a worker works on: a job, or NULL. */
void note_job(record *it, job *on);

#pragma GCC visibility pop

#endif

/* A thread's record, which pool_guard.c makes and pool_stop.c lists. */

#ifndef HAULAGE_CPU_RECORD_H
#define HAULAGE_CPU_RECORD_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "pool_internal.h"

/* Pieces of memory that a batch of blocks can own; any more are lost if it crashes. */
enum { OWNED = 8 };

/* What the end of a batch is told that a handler has jumped to. */
enum { CRASHED = 1, STOPPED = 2 };

/* What stops a thread; it is ignored where nobody has a handler. */
enum { URGENT = SIGURG };

/* What a thread runs. Where Python's handlers are run inside of it, they may run kernels, too. */
typedef struct {
    haulage_entry entry;
    const void *launch;
    uint64_t first, last;
    uint64_t owned;
    void *pieces[OWNED];
} batch;

/* Whether a thread holds a lock, so that it cannot leave, and was asked to meanwhile. */
enum { FREE = 0, BUSY = 1, ASKED = 2 };

#define NO_CALL UINT64_MAX

struct record {
    /* Where a crash goes on; NULL outside of kernels. */
    _Atomic(jmp_buf *) landing;
    batch runs;
    _Atomic int64_t busy;
    haulage_slot *slot; /* of the call */
    /* The lowest address of the stack, and its bytes. */
    void *low;
    size_t nbytes;
    /* Of a crash. */
    uint64_t address;
    int signal;
    /* For other threads too: the number of Python's call, which grows at its begin and its end, that
       of the call that is to be stopped, and the job that a worker is in. */
    _Atomic uint64_t call, to_stop;
    _Atomic(job *) in;
    record *next; /* under the lock of the list */
    pthread_t thread;
};

#pragma GCC visibility push(hidden)

/* Leaves the batch that a thread runs; in its handler of a signal. */
_Noreturn void leave_batch(record *it, int why);

/* Whether the call is to be stopped that a thread is in. */
bool is_to_stop(record *it);

#pragma GCC visibility pop

#endif

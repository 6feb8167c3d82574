/* The native worker threads of the CPU device: what Python and kernels call.

   The workers are plain pthreads that never touch the interpreter. A grid's blocks are cut into
   chunks that threads claim; the calling thread takes part. An entry runs the blocks
   [first, last) of a launch and returns 0 or a fault. */

#ifndef HAULAGE_CPU_POOL_H
#define HAULAGE_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef int64_t (*haulage_entry)(const void *launch, uint64_t first, uint64_t last);

enum {
    /* What a call returns, in the place of a fault, that leaves something in its slot. */
    HAULAGE_LEFT = -1,
    /* What a block of a copy copies. */
    HAULAGE_COPY_BYTES = 1 << 20,
    /* Messages that a buffer holds, in bytes. */
    HAULAGE_MESSAGE_BYTES = 1 << 20,
};

/* Crashes' numbers begin here, beyond all faults of kernels. */
#define HAULAGE_CRASH (INT64_C(1) << 40)
/* What running blocks gives that were stopped. */
#define HAULAGE_STOPPED (HAULAGE_CRASH - 1)
/* The address of a crash that the processor does not tell. */
#define HAULAGE_UNKNOWN UINT64_MAX

/* A grid whose blocks wait for one another: what is done with each block. It is begun or resumed,
   what is left of it dropped, or it is resumed if it gave way to others. The mode is the low bits
   of a 32-bit word of the launch. */
enum {
    HAULAGE_RESUME = 0,
    HAULAGE_DROP = 1,
    HAULAGE_GO_ON = 2,
    HAULAGE_MODES = 7,
    HAULAGE_MODE_AT = 28,
    /* An outcome of at least WAITS is a block that waits for the grid, one of at least GAVE_WAY a
       block whose threads wait for writes of other blocks. */
    HAULAGE_WAITS = 1 << 30,
    HAULAGE_GAVE_WAY = HAULAGE_WAITS + (1 << 29),
};

struct haulage_job;

/* What a call leaves: a job that is not finished, whatever interrupted the caller, and whether the
   call was stopped, by an exception of a signal's handler or by another thread. */
typedef struct {
    struct haulage_job *job;
    volatile int64_t left;
} haulage_slot;

/* One of several grids: all threads run it, whatever it took last, if one of its blocks may wait
   for another one. */
typedef struct {
    haulage_entry entry;
    const void *launch;
    int64_t by_all;
} haulage_grid;

/* How far `haulage_run_each` has come: the next grid, and what the one before it returned. */
typedef struct {
    int64_t next, fault;
} haulage_progress;

/* What is known of a crash: `low` and `nbytes` are those of the thread's stack. */
typedef struct {
    int64_t number;
    haulage_entry entry;
    int64_t signal;
    uint64_t address;
    uint64_t first, last;
    uint64_t low, nbytes;
    uint32_t grid[4];
} haulage_crash_report;

/* Once a process, and in a child after a fork: into how many chunks a grid is cut. */
void haulage_prepare(uint64_t target);

/* Starts workers; returns how many of them it could. */
int haulage_start(int workers);

/* Runs a grid, whose three extents (32 bits each) the launch begins with, and returns its fault, or
   HAULAGE_LEFT. It comes back at the latest when the chunk during which 50 ms passed is done, so
   that the caller can look after signals. `by_all`: with all threads, whatever it took last. */
int64_t haulage_run(haulage_entry entry, const void *launch, haulage_slot *slot, bool by_all);

/* Runs the blocks [first, end) of a grid, likewise. */
int64_t haulage_run_blocks(haulage_entry entry, const void *launch, uint64_t first, uint64_t end,
                           haulage_slot *slot);

/* Goes on with a job that is left, likewise. */
int64_t haulage_resume(haulage_slot *slot);

/* Runs grids one after another, until one fails or 50 ms are over. */
void haulage_run_each(const haulage_grid *grids, int64_t count, haulage_progress *progress,
                      haulage_slot *slot);

/* Runs a grid from barrier to barrier as long as all its blocks wait or some gave way to others. */
int64_t haulage_phases(haulage_entry entry, void *launch, haulage_slot *slot,
                       const uint32_t *outcomes, uint64_t blocks, bool by_all);

/* Drops the blocks of a job that have not begun, waits for those that run, or stops them if
   `by_force`, and gives the job back. */
int64_t haulage_cancel(haulage_slot *slot, bool by_force);

/* Entries that copy, by way of the caches and past them. From byte 32 on the launch has the
   addresses that are written and read, which do not overlap, and how many bytes. */
int64_t haulage_copy(const void *launch, uint64_t first, uint64_t last);
int64_t haulage_copy_past_caches(const void *launch, uint64_t first, uint64_t last);

/* Whether crashes of kernels can be caught here, and blocks be stopped that run. */
extern const bool haulage_has_guard;

/* Catches crashes from now on; returns 0 if that is so. `in_front`: also before a handler that was
   installed since the last call. */
int haulage_guard(bool in_front);

/* What is known of a crash; false if it is forgotten. */
bool haulage_crash(int64_t number, haulage_crash_report *report);

/* Notes how a kernel is called; the text is kept for ever. False without memory. */
bool haulage_name(haulage_entry entry, const char *text, uint64_t nbytes);

/* Looks after Python's signals while the main thread runs blocks. `run_handlers` lets Python run
   the handlers of its signals and returns 1 if one of them has raised an exception. */
void haulage_watch(uint64_t main_thread, int (*run_handlers)(void));

/* Stops what a thread runs, and nothing that it begins later; false if it runs nothing. */
bool haulage_stop(uint64_t thread);

/* For kernels: memory, which is freed if the batch of blocks crashes that is its owner; and whether
   the thread holds a lock, so that it cannot leave. */
void *haulage_alloc(uint64_t align, uint64_t nbytes, bool owned);
void haulage_free(void *piece);
void haulage_busy(int64_t on);

/* For kernels: tells the host a number and some 8-byte cells. */
void haulage_message(int32_t number, const void *cells, uint32_t count);

/* Takes the messages of a sign; returns their bytes, and how many more found no room. */
uint64_t haulage_take_messages(bool negative, void *into, uint32_t *dropped);

/* In the child of a fork: no message is left, and no lock held. */
void haulage_renew_messages(void);

#pragma GCC visibility pop

#endif

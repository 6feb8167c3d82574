/* Races, and reads of what nobody wrote, found while checked kernels run.

   Kernels are compiled with a call in front of each access (compiler/checks). What these calls note
   of each location, and when two accesses are ordered, is described in check_order.c and
   check_cells.c. One launch is checked at a time. */

#ifndef HAULAGE_CHECK_NATIVE_H
#define HAULAGE_CHECK_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* What is found. */
enum {
    HAULAGE_RACE = 0,
    HAULAGE_UNWRITTEN = 1,
    HAULAGE_ANOTHER_BARRIER = 2,
    HAULAGE_NOT_IN_MASK = 3,
    HAULAGE_ABSENT_LANE = 4,
    HAULAGE_MISSED_BARRIER = 5,
};

/* How an access is given to the calls: the number of its site, its bytes, which of the ranges it is
   in as far as the code shows, and these. */
enum {
    HAULAGE_SITE_BITS = 11,
    HAULAGE_SIZE_AT = 16,
    HAULAGE_RANGE_AT = 24,
    HAULAGE_NO_RANGE = 255,
    HAULAGE_SHARED = 1 << 11,
    HAULAGE_HAS_VALUE = 1 << 12,
    HAULAGE_ONLY_READS = 1 << 13, /* of an atomic operation */
    HAULAGE_TAKES = 1 << 14, /* it is a compare-and-swap */
};

/* Arrays in shared memory that the kernel's code knows, by their numbers. */
enum { HAULAGE_ARRAYS = 64, HAULAGE_NO_ARRAY = HAULAGE_ARRAYS };

/* How an exchange of lanes is given: the number of its site, whether warps have 64 lanes, and how the
   lane is named whose value is taken. */
enum {
    HAULAGE_WIDE_WARP = 1 << 11,
    HAULAGE_KIND_AT = 16,
    HAULAGE_FROM_NONE = 0,
    HAULAGE_FROM_LANE = 1,
    HAULAGE_FROM_XOR = 2,
    HAULAGE_FROM_UP = 3,
    HAULAGE_FROM_DOWN = 4,
};

/* Memory of a launch: where it is, log2 of the bytes that one cell stands for, and a byte for each
   byte of it that says whether it was written; NULL: all of it was. No two of them overlap that are
   not the same. */
typedef struct {
    uint64_t low, high;
    uint8_t *written;
    uint32_t shift;
    bool races;
} haulage_check_range;

/* A pair of sites, how often it was found, and the first two accesses: block, thread and address;
   `same` if all of them wrote what was there. */
typedef struct {
    uint32_t kind, site, other;
    uint32_t thread, other_thread;
    uint64_t block, other_block;
    uint64_t address, count;
    uint64_t origin; /* of memory of the kernel's own: where the array begins */
    uint32_t array;  /* and its number; HAULAGE_NO_ARRAY: it is in none */
    bool same, has_other;
} haulage_check_found;

/* How many ways of threads can be counted in a process. */
enum { HAULAGE_COUNTERS = 1 << 20 };

/* What a launch is. `shared_shift` is that of shared memory; `keeps`: its blocks wait for one another.
   Returns 0, or -1 without memory. */
int haulage_check_begin(const haulage_check_range *ranges, uint32_t count, uint64_t blocks,
                        uint32_t threads, uint32_t shared_shift, bool races, bool unwritten,
                        bool keeps, bool parallel);

/* Blocks that are checked, each by its number for either code, in the order of the first. */
typedef struct {
    uint64_t plain, checked;
} haulage_check_sample;

typedef int64_t (*haulage_check_code)(const void *launch, uint64_t first, uint64_t last);

/* Lets `haulage_check_entry` run `count` blocks by one code and all others by the other one. Returns 0,
   or -1 without memory. */
int haulage_check_sample_blocks(const haulage_check_sample *samples, uint64_t count,
                                haulage_check_code plain, haulage_check_code checked);
int64_t haulage_check_entry(const void *given, uint64_t first, uint64_t last);

/* Ends it; returns how many were found, of which `at` has one. */
uint32_t haulage_check_end(uint64_t *accesses);
void haulage_check_at(uint32_t number, haulage_check_found *at);
/* The access of an address outside of all ranges that a thread of the system was told of last, with
   its site, block and thread; false: there is none. */
bool haulage_check_stray(uint64_t address, haulage_check_found *at);

/* For kernels. */
void *haulage_check_thread(int64_t block, int32_t thread);
void haulage_check_read(void *thread, const void *address, int64_t how);
void haulage_check_write(void *thread, const void *address, int64_t how, int64_t value);
void haulage_check_atomic(void *thread, const void *address, int64_t how);
/* Behind an atomic operation of a kernel with fences: the thread learns what others made known. */
void haulage_check_operated(void *thread);
/* Behind a compare-and-swap of such a kernel: whether it took place, what it expected and wrote. */
void haulage_check_swapped(void *thread, int64_t took, int64_t expected, int64_t desired);
void haulage_check_barrier(void *thread, int64_t site);
void haulage_check_passed(void *thread);
/* The thread ends with a code; `left` is that of a `return` amid the kernel, behind which no barrier
   misses it. */
void haulage_check_ended(void *thread, int32_t code, int32_t left);
void haulage_check_grid_passed(void *thread);
void haulage_check_warp(void *thread, int64_t lanes, int64_t site);
void haulage_check_warp_passed(void *thread);
void haulage_check_exchange(void *thread, int64_t mask, int64_t how);
void haulage_check_exchanged(void *thread, int64_t number, int64_t how);
void haulage_check_fence(void *thread, int64_t block_only);
/* An array of shared memory, with its number, begins at an address. */
void haulage_check_array(void *thread, const void *address, int64_t number);
/* Bytes are read, so many behind the beginning of one of the thread's own arrays, that it did not
   write. */
void haulage_check_unwritten(void *thread, int64_t offset, int64_t how);
/* The counters that code run by this thread of the system adds to: `HAULAGE_COUNTERS` of them. */
uint64_t *haulage_check_counters(void);

/* What threads of the system have added to a counter together, by now. */
uint64_t haulage_check_count(uint32_t counter);

#pragma GCC visibility pop

#endif

/* What a launch costs a GPU, measured while it runs on the CPU device.

   Kernels are compiled with a call in front of each access, at the head of each loop and in front of
   each branch in one (compiler/checks/lint.py). Lanes of a warp run here one after the other; what
   they would do in one step is found by a path: a number that the code works out for each iteration
   of each loop, the same one for all lanes that are in the same iteration. Lanes that come to a site
   by one path are one request of their warp, as on a GPU whose lanes meet again behind each branch
   and each loop. */

#ifndef HAULAGE_LINT_NATIVE_H
#define HAULAGE_LINT_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum {
    HAULAGE_LINT_GLOBAL = 0,
    HAULAGE_LINT_SHARED = 1,
    HAULAGE_LINT_BRANCH = 2,
    HAULAGE_LINT_LOOP = 3,
    HAULAGE_LINT_COUNT = 4,
    HAULAGE_LINT_FIGURES = 8,
};

/* A place of the kernel. Those of one group are at one line, and of one array. */
typedef struct {
    uint32_t kind, nbytes, group;
    /* Of a branch: whether lanes that do not take it, or that do, only wait for the others; of a
       loop: whether lanes leave it at its head, which they come to once more then. */
    bool waits, taken_waits, exits;
} haulage_lint_site;

/* What was measured at each site, or for each group (see check_lint.c for what the numbers are). */
typedef uint64_t haulage_lint_figures[HAULAGE_LINT_FIGURES];

/* Memory of the host, whose addresses are so many bytes beyond what a GPU's copy would have: that
   begins at the beginning of a sector. */
typedef struct {
    uint64_t low, high, beyond;
} haulage_lint_shift;

/* `measured` has the numbers of the blocks to measure, in order; NULL: all. `keeps`: blocks wait for
   one another. Returns 0, or -1 without memory. */
int haulage_lint_begin(const haulage_lint_site *sites, uint32_t count, uint32_t groups,
                       uint32_t threads, uint32_t lanes, const uint64_t *measured,
                       uint64_t measured_count, const haulage_lint_shift *shifts,
                       uint32_t shift_count, bool keeps);
/* Ends it. `sites` and `groups` get the figures of each; `threads` how many threads were measured, and
   how many of them did nothing; returns the accesses. */
uint64_t haulage_lint_end(haulage_lint_figures *sites, haulage_lint_figures *groups,
                          uint64_t threads[2]);

/* For kernels. */
void *haulage_lint_thread(int64_t block, int32_t thread);
void haulage_lint_access(void *lane, const void *address, int64_t site, int64_t path);
void haulage_lint_branch(void *lane, int64_t site, int64_t path, int64_t taken);
void haulage_lint_loop(void *lane, int64_t site, int64_t entered);
void haulage_lint_count(void *lane, int64_t site, int64_t operations);
void haulage_lint_works(void *lane);

#pragma GCC visibility pop

#endif

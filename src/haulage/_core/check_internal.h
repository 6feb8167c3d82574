/* What the files of the checks share: threads, blocks, and which of their accesses come first. */

#ifndef HAULAGE_CHECK_INTERNAL_H
#define HAULAGE_CHECK_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "check_native.h"

#pragma GCC visibility push(hidden)

/* An access that is remembered: 24 bits of a block's stage, 10 of the thread, 16 of its clock, 11 of
   the site, and 3 flags. 0 is none. A stage is a number that a block has for a while: it takes
   another one at each barrier of the grid, and when its clocks run out. */
typedef uint64_t event;

enum {
    STAGE_AT = 40,
    THREAD_AT = 30,
    CLOCK_AT = 14,
    SITE_AT = 3,
    MOST_CLOCK = 0xffff,
    SITES = 1 << HAULAGE_SITE_BITS,
    /* Of an event: it is an atomic operation; it stands for all threads of its block; it is no event,
       but the place of a set of them. */
    ATOMIC = 1,
    WIDE = 2,
    SET = 4,
};

static inline uint32_t stage_of(event e) { return (uint32_t)(e >> STAGE_AT); }
static inline uint32_t thread_of(event e) { return (uint32_t)(e >> THREAD_AT) & 0x3ff; }
static inline uint32_t clock_of(event e) { return (uint32_t)(e >> CLOCK_AT) & MOST_CLOCK; }
static inline uint32_t site_of(event e) { return (uint32_t)(e >> SITE_AT) & (SITES - 1); }

/* Threads that may meet at a barrier of lanes: a wavefront, which may be two warps. */
enum { LANES = 64 };

typedef struct block block;
typedef struct map map;

/* What was learnt at an atomic operation: all that the map had in its version then. `block`, from 1
   on, is that of the thread, which may learn what was made known for its block only; 0 where there was
   no such thing. `own_only`: it learnt by a fence of its block, so from threads of this block only.
   `scoped`: it was passed on behind such a fence, so to threads of this block only. `took`: a
   compare-and-swap found what it expected there, as one that takes a lock does. */
typedef struct {
    const map *from;
    uint64_t block;
    int64_t expected;
    uint32_t version;
    bool own_only, scoped, took;
} acquired;

/* A lock that a thread took, what it expected, and the clocks of what it did then in front of a fence
   of its block, and of one of the grid; a last clock is 0 until there is such a fence. */
typedef struct {
    uint64_t address, block; /* as those of a map; 0: there is none */
    int64_t expected;
    uint64_t accesses; /* of the block, when it was taken */
    uint32_t stage;
    uint16_t number, first, last_of_block, last_of_grid;
} unfenced;

/* `many`: it was more than is listed, so that all counts as learnt. */
typedef struct {
    acquired *each;
    uint32_t count;
    bool many;
} acquired_list;

/* What a thread knew of its block at a fence: its own clock then, which is 0 if there was none, and
   the one up to which it knew of all others. */
typedef struct {
    uint32_t stage;
    uint16_t clock, base;
} fenced;

typedef struct meeting meeting;

/* A thread. Its accesses since its last synchronisation have its `clock`; those of its block with
   clocks up to `base` came before. */
typedef struct {
    block *of;
    uint16_t number, clock, base;
    /* Barriers passed, of the block and of the grid, and the last one come to. */
    uint32_t barriers, grids, came_to;
    bool left;
    fenced of_grid, of_block; /* the last fence for the grid, and one for the block behind it */
    meeting *met;
    const map *operates_on;
    acquired_list learnt;
    acquired_list taken; /* by compare-and-swap, as locks are: learnt at the next fence or barrier */
    unfenced last_taken;
    uint64_t address, address_block; /* of its last atomic operation */
    bool takes;
} thread;

typedef struct {
    event write, others;
} cell;

enum { PAGE_BYTES = 256 };

/* Some bytes of shared memory: their cells, and which of them were written. */
typedef struct {
    uint64_t key;
    uint32_t stage; /* the block's first one, that it was cleared for */
    cell *cells;
    uint8_t written[PAGE_BYTES];
} page;

struct block {
    uint64_t number;
    uint32_t stage, first_stage;
    uint32_t grid_barriers;
    bool has_fences; /* of the grid */
    uint16_t most[2]; /* the greatest clock of those that came to the next barriers */
    uint32_t came[2], passed; /* how many came to these, and which barrier the first has passed */
    event first[2]; /* the first that came to these barriers, and which barriers they are */
    uint32_t first_of[2];
    acquired_list learnt[2];
    uint16_t (*lanes)[LANES]; /* for each thread, the clocks that it knows of the 64 around it */
    meeting *meetings;
    page **pages;
    uint32_t page_count, page_room;
    page *last_page;
    uint64_t accesses;
    uint64_t arrays[HAULAGE_ARRAYS]; /* where each one begins; 0: it has not begun */
    block *next;
    thread threads[];
};

/* The launch that is checked; `on` while there is one. */
typedef struct {
    bool on, races, unwritten, keeps, parallel;
    haulage_check_range *ranges;
    cell **cells; /* of each range */
    uint32_t count, threads, shared_shift;
    uint64_t number;
    _Atomic(block *) blocks; /* all of them */
} launch_state;

extern launch_state launch;

/* Whether an event came before what a thread does now, or is the thread's own. */
bool comes_first(event e, const thread *now);
/* The number of an event's block, and whether the event is one of this launch. */
uint64_t block_of(event e);
bool is_of_launch(event e);
/* A thread, which is about to operate on a location, lets what it did before its fence be known to
   whoever operates there later. */
void synchronise(thread *now, uint64_t address, bool shared);

int begin_order(uint64_t blocks);
void end_order(void);

/* Notes something that was found. */
void found(uint32_t kind, const thread *now, uint32_t site, uint64_t address, event other, bool same);

static inline event event_of(const thread *now, uint32_t site, uint32_t flags)
{
    return (uint64_t)now->of->stage << STAGE_AT | (uint64_t)now->number << THREAD_AT |
           (uint64_t)now->clock << CLOCK_AT | (uint64_t)site << SITE_AT | flags;
}

#pragma GCC visibility pop

#endif

/* Which accesses come before which, whatever order the threads ran in.

   Each thread has a clock, which grows when it synchronises: at a barrier of its block or grid, at a
   barrier of lanes of its warp, and at a fence. What a thread knows of others' clocks is kept as
   sparsely as the hierarchy of a grid allows. After a barrier of the block all its threads have the
   same clock, and know all that has a smaller one: a number suffices. Lanes that meet exchange what
   they know of their warp. An atomic operation behind a fence lets all be known that the thread knew at
   the fence, to whoever operates on the same location later.

   This is FastTrack (Flanagan and Freund, PLDI 2009) with the barriers of BARRACUDA (Eizenberg et al.,
   PLDI 2017) and the scopes of iGUARD (Kamath and Basu, SOSP 2021). */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "check_internal.h"

launch_state launch;

/* ---- stages --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t block;
    uint32_t grid_barriers;
} stage_info;

enum { MOST_STAGES = 1 << 24, CHUNK = 1 << 12, CHUNKS = MOST_STAGES / CHUNK };

static _Atomic(stage_info *) stages[CHUNKS];
static _Atomic uint32_t next_stage = 1;
static uint32_t first_stage = 1;

static uint32_t new_stage(uint64_t number, uint32_t grid_barriers)
{
    uint32_t stage = atomic_fetch_add(&next_stage, 1);
    if (stage >= MOST_STAGES)
        stage = MOST_STAGES - 1; /* `begin_order` sees to it that this is never so */
    _Atomic(stage_info *) *chunk = &stages[stage / CHUNK];
    stage_info *info = atomic_load(chunk);
    if (info == NULL) {
        stage_info *made = calloc(CHUNK, sizeof *made);
        if (made == NULL)
            abort();
        if (atomic_compare_exchange_strong(chunk, &info, made))
            info = made;
        else
            free(made);
    }
    info[stage % CHUNK] = (stage_info){number, grid_barriers};
    return stage;
}

static inline const stage_info *info_of(event e)
{
    uint32_t stage = stage_of(e);
    return &atomic_load_explicit(&stages[stage / CHUNK], memory_order_acquire)[stage % CHUNK];
}

uint64_t block_of(event e) { return info_of(e)->block; }

bool is_of_launch(event e) { return stage_of(e) >= first_stage; }

/* ---- what is known by way of atomic operations ------------------------------------------------ */

typedef struct {
    uint64_t key; /* a stage and a thread, or a stage and all its threads */
    uint32_t since;
    uint16_t clock;
} entry;

enum { ALL_THREADS = 1 << 10, SCOPED = 1 << 11, KEY_AT = 12 };

struct map {
    uint64_t address;
    entry *entries;
    uint32_t count, room, version;
    acquired_list learnt;
    map *next;
};

enum { BUCKETS = 1 << 10 };
static map *maps[BUCKETS];
static atomic_flag maps_lock = ATOMIC_FLAG_INIT;

static void take(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
}

static void give(atomic_flag *lock) { atomic_flag_clear_explicit(lock, memory_order_release); }

static map *map_at(uint64_t address, bool make)
{
    map **bucket = &maps[(address >> 2) * 0x9e3779b97f4a7c15u >> 54 & (BUCKETS - 1)];
    for (map *it = *bucket; it; it = it->next)
        if (it->address == address)
            return it;
    if (!make)
        return NULL;
    map *made = calloc(1, sizeof *made);
    if (made) {
        made->address = address;
        made->next = *bucket;
        *bucket = made;
    }
    return made;
}

static entry *entry_of(const map *in, uint64_t key)
{
    if (!in->room)
        return NULL;
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 20;
    for (;; at++) {
        entry *it = &in->entries[at & (in->room - 1)];
        if (it->key == key || !it->key)
            return it;
    }
}

static void note(map *in, uint64_t key, uint16_t clock)
{
    if (2 * in->count >= in->room) {
        map larger = *in;
        larger.room = in->room ? 2 * in->room : 16;
        larger.entries = calloc(larger.room, sizeof *larger.entries);
        if (!larger.entries)
            return;
        for (uint32_t i = 0; i < in->room; i++)
            if (in->entries[i].key)
                *entry_of(&larger, in->entries[i].key) = in->entries[i];
        free(in->entries);
        in->entries = larger.entries;
        in->room = larger.room;
    }
    entry *it = entry_of(in, key);
    if (!it->key) {
        it->key = key;
        it->since = in->version;
        in->count++;
    }
    if (it->clock < clock)
        it->clock = clock;
}

static void learn(acquired_list *list, const map *from, uint32_t version)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->each[i].from == from) {
            if (list->each[i].version < version)
                list->each[i].version = version;
            return;
        }
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 4;
        acquired *grown = realloc(list->each, room * sizeof *grown);
        if (!grown)
            return;
        list->each = grown;
        list->room = room;
    }
    list->each[list->count++] = (acquired){from, version};
}

static void learn_all(acquired_list *list, const acquired_list *of)
{
    for (uint32_t i = 0; i < of->count; i++)
        learn(list, of->each[i].from, of->each[i].version);
}

static void forget(acquired_list *list)
{
    free(list->each);
    *list = (acquired_list){0};
}

void synchronise(thread *now, uint64_t address)
{
    take(&maps_lock);
    map *at = map_at(address, now->fence != 0);
    if (at) {
        block *of = now->of;
        uint32_t known = at->version;
        if (now->fence) {
            uint64_t scope = now->fence_of_grid ? 0 : SCOPED;
            uint64_t stage = (uint64_t)of->stage << KEY_AT;
            at->version++;
            note(at, stage | scope | now->number, now->fence);
            if (now->fence_base)
                note(at, stage | scope | ALL_THREADS, now->fence_base);
            learn_all(&at->learnt, &now->learnt);
            learn_all(&at->learnt, &of->learnt[now->barriers & 1]);
        }
        learn(&now->learnt, at, known);
    }
    give(&maps_lock);
}

enum { DEEPEST = 8 };

static bool is_known(event e, const acquired_list *list, const thread *now, int depth)
{
    uint64_t stage = (uint64_t)stage_of(e) << KEY_AT;
    bool is_own = info_of(e)->block == now->of->number;
    for (uint32_t i = 0; i < list->count; i++) {
        const map *from = list->each[i].from;
        uint64_t keys[4] = {stage | thread_of(e), stage | ALL_THREADS,
                            stage | SCOPED | thread_of(e), stage | SCOPED | ALL_THREADS};
        for (int k = 0; k < (is_own ? 4 : 2); k++) {
            const entry *it = entry_of(from, keys[k]);
            if (it && it->key && it->since <= list->each[i].version && clock_of(e) <= it->clock)
                return true;
        }
        if (depth < DEEPEST && &from->learnt != list && is_known(e, &from->learnt, now, depth + 1))
            return true;
    }
    return false;
}

/* ---- the order ---------------------------------------------------------------------------------- */

bool comes_first(event e, const thread *now)
{
    const block *of = now->of;
    uint32_t stage = stage_of(e);
    if (stage == of->stage) {
        if (thread_of(e) == now->number && !(e & WIDE))
            return true;
        if (clock_of(e) <= now->base)
            return true;
        if (of->lanes && !(e & WIDE) && thread_of(e) / launch.warp == now->number / launch.warp &&
            clock_of(e) <= of->lanes[now->number][thread_of(e) % launch.warp])
            return true;
    } else {
        const stage_info *info = info_of(e);
        if (info->block == of->number || info->grid_barriers < of->grid_barriers)
            return true;
    }
    if (!now->learnt.count && !of->learnt[now->barriers & 1].count)
        return false;
    take(&maps_lock);
    bool known = is_known(e, &now->learnt, now, 0) ||
                 is_known(e, &of->learnt[now->barriers & 1], now, 0);
    give(&maps_lock);
    return known;
}

static inline void tick(thread *now)
{
    if (now->clock < MOST_CLOCK)
        now->clock++;
}

void haulage_check_fence(void *given, int64_t block_only)
{
    thread *now = given;
    if (!launch.on)
        return;
    now->fence = now->clock;
    now->fence_base = now->base;
    now->fence_of_grid = !block_only;
    tick(now);
}

void haulage_check_barrier(void *given, int64_t site)
{
    thread *now = given;
    if (!launch.on)
        return;
    block *of = now->of;
    int next = (now->barriers + 1) & 1;
    if (of->most[next] < now->clock)
        of->most[next] = now->clock;
    if (of->first_of[next] != now->barriers + 1) {
        of->first_of[next] = now->barriers + 1;
        of->first[next] = event_of(now, (uint32_t)site, 0);
    } else if (site_of(of->first[next]) != (uint32_t)site)
        found(HAULAGE_ANOTHER_BARRIER, now, (uint32_t)site, 0, of->first[next], false);
    if (now->learnt.count) {
        take(&maps_lock);
        learn_all(&of->learnt[next], &now->learnt);
        give(&maps_lock);
    }
}

void haulage_check_passed(void *given)
{
    thread *now = given;
    if (!launch.on)
        return;
    block *of = now->of;
    int next = ++now->barriers & 1;
    now->base = of->most[next];
    now->clock = now->base;
    tick(now);
    if (now->clock > MOST_CLOCK - 1024) {
        /* All that has the old stage comes before what follows, for threads of this block. */
        of->stage = new_stage(of->number, of->grid_barriers);
        of->most[0] = of->most[1] = now->base = 0;
        now->clock = 1;
    }
}

void haulage_check_grid_passed(void *given)
{
    thread *now = given;
    if (!launch.on)
        return;
    haulage_check_passed(given);
    if (++now->grids > now->of->grid_barriers) {
        now->of->grid_barriers = now->grids;
        now->of->stage = new_stage(now->of->number, now->grids);
    }
}

/* ---- lanes of a warp that meet -------------------------------------------------------------------- */

/* What those of the same lanes know that came to a barrier together. */
struct meeting {
    uint32_t warp;
    uint64_t lanes, here;
    bool over; /* somebody has left it */
    uint16_t known[64];
    meeting *next;
};

static uint16_t *lanes_of(thread *now)
{
    block *of = now->of;
    if (!of->lanes) {
        of->lanes = calloc(launch.threads, sizeof *of->lanes);
        if (!of->lanes)
            abort();
    }
    return of->lanes[now->number];
}

void haulage_check_warp(void *given, int64_t lanes, int64_t site)
{
    thread *now = given;
    if (!launch.on)
        return;
    block *of = now->of;
    uint32_t warp = now->number / launch.warp, lane = now->number % launch.warp;
    /* The mask is one of 64 threads, which may be two warps. */
    uint64_t mask = (uint64_t)lanes, own = UINT64_C(1) << (now->number & 63);
    if (mask && !(mask & own))
        found(HAULAGE_NOT_IN_MASK, now, (uint32_t)site, 0, 0, false);
    meeting *at = of->meetings;
    while (at && (at->over || at->warp != warp || at->lanes != mask || (at->here & own)))
        at = at->next;
    if (!at) {
        at = calloc(1, sizeof *at);
        if (!at)
            abort();
        at->warp = warp;
        at->lanes = mask;
        at->next = of->meetings;
        of->meetings = at;
    }
    at->here |= own;
    uint16_t *known = lanes_of(now);
    known[lane] = now->clock;
    for (uint32_t i = 0; i < launch.warp; i++)
        if (at->known[i] < known[i])
            at->known[i] = known[i];
    now->met = at;
}

void haulage_check_warp_passed(void *given)
{
    thread *now = given;
    if (!launch.on || !now->met)
        return;
    meeting *at = now->met;
    now->met = NULL;
    uint16_t *known = lanes_of(now);
    for (uint32_t i = 0; i < launch.warp; i++)
        if (known[i] < at->known[i])
            known[i] = at->known[i];
    tick(now);
    at->over = true;
    at->here &= ~(UINT64_C(1) << (now->number & 63));
    if (!at->here) {
        meeting **link = &now->of->meetings;
        while (*link != at)
            link = &(*link)->next;
        *link = at->next;
        free(at);
    }
}

/* ---- blocks and threads -------------------------------------------------------------------------- */

/* One that each thread of the system runs, from one block to the next. */
static _Thread_local block *running;
static _Thread_local uint64_t running_launch;

static void clear(block *of)
{
    for (uint32_t i = 0; i < launch.threads; i++)
        forget(&of->threads[i].learnt);
    forget(&of->learnt[0]);
    forget(&of->learnt[1]);
    for (meeting *it = of->meetings, *next; it; it = next) {
        next = it->next;
        free(it);
    }
    of->meetings = NULL;
    if (of->lanes)
        memset(of->lanes, 0, launch.threads * sizeof *of->lanes);
}

static void start(block *of, uint64_t number)
{
    of->number = number;
    of->stage = of->first_stage = new_stage(number, 0);
    of->grid_barriers = 0;
    of->most[0] = of->most[1] = 0;
    of->first_of[0] = of->first_of[1] = 0;
    memset(of->arrays, 0, sizeof of->arrays);
    memset(of->threads, 0, launch.threads * sizeof *of->threads);
    for (uint32_t i = 0; i < launch.threads; i++) {
        of->threads[i].of = of;
        of->threads[i].number = (uint16_t)i;
        of->threads[i].clock = 1;
    }
}

static block *new_block(uint64_t number)
{
    block *made = calloc(1, sizeof *made + launch.threads * sizeof *made->threads);
    if (!made)
        abort();
    start(made, number);
    made->next = atomic_load(&launch.blocks);
    while (!atomic_compare_exchange_weak(&launch.blocks, &made->next, made)) {
    }
    return made;
}

static block *kept_block(uint64_t number)
{
    for (block *it = atomic_load(&launch.blocks); it; it = it->next)
        if (it->number == number)
            return it;
    return new_block(number);
}

/* For what runs checked code outside of a checked launch. */
static _Thread_local thread nobody;

void *haulage_check_thread(int64_t number, int32_t index)
{
    if (!launch.on)
        return &nobody;
    if (!running || running_launch != launch.number || running->number != (uint64_t)number) {
        if (launch.keeps)
            running = kept_block((uint64_t)number);
        else if (!running || running_launch != launch.number)
            running = new_block((uint64_t)number);
        else {
            clear(running);
            start(running, (uint64_t)number);
        }
        running_launch = launch.number;
    }
    return &running->threads[index];
}

int begin_order(uint64_t blocks)
{
    uint32_t next = atomic_load(&next_stage);
    /* Blocks take some more stages than one where their clocks run out, or at grids' barriers. */
    if (next + blocks + MOST_STAGES / 4 >= MOST_STAGES) {
        if (blocks + MOST_STAGES / 4 >= MOST_STAGES)
            return -1;
        atomic_store(&next_stage, 1);
        first_stage = 1;
        return 1;
    }
    first_stage = next;
    return 0;
}

void end_order(void)
{
    for (block *it = atomic_exchange(&launch.blocks, NULL), *next; it; it = next) {
        next = it->next;
        clear(it);
        free(it->lanes);
        for (uint32_t i = 0; i < it->page_room; i++)
            if (it->pages[i]) {
                free(it->pages[i]->cells);
                free(it->pages[i]);
            }
        free(it->pages);
        free(it);
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (map *it = maps[i], *next; it; it = next) {
            next = it->next;
            free(it->entries);
            forget(&it->learnt);
            free(it);
        }
        maps[i] = NULL;
    }
}

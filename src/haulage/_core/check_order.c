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
    uint32_t previous; /* the block's stage before this one, where no barrier of the grid is between */
} stage_info;

enum { MOST_STAGES = 1 << 24, CHUNK = 1 << 12, CHUNKS = MOST_STAGES / CHUNK };

static _Atomic(stage_info *) stages[CHUNKS];
static _Atomic uint32_t next_stage = 1;
static uint32_t first_stage = 1;

static uint32_t new_stage(uint64_t number, uint32_t grid_barriers, uint32_t previous)
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
    info[stage % CHUNK] = (stage_info){number, grid_barriers, previous};
    return stage;
}

static inline const stage_info *info_at(uint32_t stage)
{
    return &atomic_load_explicit(&stages[stage / CHUNK], memory_order_acquire)[stage % CHUNK];
}

static inline const stage_info *info_of(event e) { return info_at(stage_of(e)); }

uint64_t block_of(event e) { return info_of(e)->block; }

bool is_of_launch(event e) { return stage_of(e) >= first_stage; }

/* ---- clocks ---------------------------------------------------------------------------------- */

static inline void tick(thread *now)
{
    if (now->clock < MOST_CLOCK)
        now->clock++;
}

/* ---- what is known by way of atomic operations ------------------------------------------------ */

/* A clock that was made known in a version of the map, and where the one before it is, from 1 on. */
typedef struct {
    uint32_t version, earlier;
    uint16_t clock;
} record;

typedef struct {
    uint64_t key; /* a stage and a thread, or a stage and all its threads */
    uint32_t last; /* its newest record, from 1 on */
} entry;

/* Of a key: of all threads; for the block only; of the thread's atomic operations. */
enum { ALL_THREADS = 1 << 10, SCOPED = 1 << 11, OPERATIONS = 1 << 12, KEY_AT = 13 };

enum { MOST_UNFENCED = 64 };

/* Of one location: shared memory is that of a block, whose number comes with it, from 1 on. */
struct map {
    uint64_t address, block;
    entry *entries;
    record *records;
    uint32_t count, room, record_count, record_room, version;
    bool has_scoped;
    acquired_list learnt;
    unfenced *unfenced; /* what those did that took it as a lock, without a fence behind that */
    uint32_t unfenced_count;
    map *next;
};

enum { BUCKETS = 1 << 12 };
static map *maps[BUCKETS];
static atomic_flag maps_lock = ATOMIC_FLAG_INIT;
static atomic_bool has_maps;

static void take(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
}

static void give(atomic_flag *lock) { atomic_flag_clear_explicit(lock, memory_order_release); }

static map *map_at(uint64_t address, uint64_t of_block, bool make)
{
    uint64_t hash = ((address >> 2) + of_block) * 0x9e3779b97f4a7c15u;
    map **bucket = &maps[hash >> 52 & (BUCKETS - 1)];
    for (map *it = *bucket; it; it = it->next)
        if (it->address == address && it->block == of_block)
            return it;
    if (!make)
        return NULL;
    map *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->address = address;
    made->block = of_block;
    made->next = *bucket;
    *bucket = made;
    atomic_store(&has_maps, true);
    return made;
}

static entry *entry_of(const map *in, uint64_t key)
{
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 20;
    for (;; at++) {
        entry *it = &in->entries[at & (in->room - 1)];
        if (it->key == key || !it->key)
            return it;
    }
}

/* The clock of a key that was known in a version, or 0. */
static uint16_t clock_in(const map *in, uint64_t key, uint32_t version)
{
    if (!in->room)
        return 0;
    uint32_t at = entry_of(in, key)->last;
    while (at && in->records[at - 1].version > version)
        at = in->records[at - 1].earlier;
    return at ? in->records[at - 1].clock : 0;
}

/* Makes a clock known in the version after the present one; whether it is news. */
static bool note(map *in, uint64_t key, uint16_t clock)
{
    if (2 * in->count >= in->room) {
        map larger = *in;
        larger.room = in->room ? 2 * in->room : 16;
        larger.entries = calloc(larger.room, sizeof *larger.entries);
        if (!larger.entries)
            abort();
        for (uint32_t i = 0; i < in->room; i++)
            if (in->entries[i].key)
                *entry_of(&larger, in->entries[i].key) = in->entries[i];
        free(in->entries);
        in->entries = larger.entries;
        in->room = larger.room;
    }
    entry *it = entry_of(in, key);
    if (it->last && in->records[it->last - 1].clock >= clock)
        return false;
    if (in->record_count == in->record_room) {
        in->record_room = in->record_room ? 2 * in->record_room : 16;
        in->records = realloc(in->records, in->record_room * sizeof *in->records);
        if (!in->records)
            abort();
    }
    in->records[in->record_count++] = (record){in->version + 1, it->last, clock};
    if (!it->key)
        in->count++;
    it->key = key;
    it->last = in->record_count;
    return true;
}

enum { MOST_LEARNT = 64 };

static void learn(acquired_list *list, acquired it)
{
    for (uint32_t i = 0; i < list->count; i++) {
        acquired *known = &list->each[i];
        if (known->from == it.from && known->block == it.block && known->own_only == it.own_only &&
            known->scoped == it.scoped && known->took == it.took) {
            if (known->version <= it.version)
                *known = it;
            return;
        }
    }
    if (list->count == MOST_LEARNT) {
        list->many = true;
        return;
    }
    if (!(list->count & (list->count - 1))) {
        uint32_t room = list->count ? 2 * list->count : 1;
        list->each = realloc(list->each, room * sizeof *list->each);
        if (!list->each)
            abort();
    }
    list->each[list->count++] = it;
}

static void learn_all(acquired_list *list, const acquired_list *of)
{
    for (uint32_t i = 0; i < of->count; i++)
        learn(list, of->each[i]);
    list->many = list->many || of->many;
}

/* Makes known in a map what a thread of a block has learnt. */
static void pass_on(map *at, const block *of, const acquired_list *list, bool scoped)
{
    for (uint32_t i = 0; i < list->count; i++) {
        acquired it = list->each[i];
        if (scoped) {
            it.block = of->number + 1;
            it.scoped = true;
        }
        learn(&at->learnt, it);
    }
    at->learnt.many = at->learnt.many || list->many;
}

static void forget(acquired_list *list)
{
    free(list->each);
    *list = (acquired_list){0};
}

/* Makes known what a thread knew of its block at a fence; whether any of it is news. */
static bool publish(map *at, const thread *now, const fenced *fence, uint64_t scope)
{
    uint64_t stage = (uint64_t)fence->stage << KEY_AT | scope;
    bool news = note(at, stage | now->number, fence->clock);
    if (fence->base)
        news |= note(at, stage | ALL_THREADS, fence->base);
    if (now->of->lanes) {
        const uint16_t *known = now->of->lanes[now->number];
        for (uint32_t lane = 0; lane < LANES; lane++)
            if (known[lane] > fence->base)
                news |= note(at, stage | ((now->number & ~(LANES - 1u)) + lane), known[lane]);
    }
    for (uint32_t each = info_at(fence->stage)->previous; each; each = info_at(each)->previous)
        news |= note(at, (uint64_t)each << KEY_AT | scope | ALL_THREADS, MOST_CLOCK);
    return news;
}

/* Others of the block have had fences of their own in front of a barrier that they passed with this
   thread; one that has had a fence since makes known all that was before the barrier anyway. Whether
   there are any; `news` if what they knew was. */
static bool publish_others(map *at, const thread *now, bool *news)
{
    const block *of = now->of;
    const fenced *own = &now->of_grid;
    if (own->clock && own->stage == of->stage && own->base == now->base)
        return false;
    bool any = false;
    for (uint32_t i = 0; i < launch.threads; i++) {
        const thread *other = &of->threads[i];
        const fenced *fence = &other->of_grid;
        if (fence->clock && other != now &&
            (fence->stage != of->stage || fence->clock <= now->base)) {
            *news |= publish(at, other, fence, 0);
            any = true;
        }
    }
    return any;
}

/* A thread gives back a lock that it took without a fence behind that: whoever takes the lock does not
   come after what it did in front of its first fence, as their order might have been the other one. */
static void note_unfenced(map *at, thread *now)
{
    unfenced *own = &now->last_taken;
    if (own->address != at->address || own->block != at->block || own->stage != now->of->stage)
        return;
    own->address = 0;
    if (!own->last_of_grid)
        own->last_of_grid = now->clock;
    if (at->unfenced_count == MOST_UNFENCED || own->first == MOST_CLOCK)
        return;
    if (!at->unfenced && !(at->unfenced = calloc(MOST_UNFENCED, sizeof *at->unfenced)))
        abort();
    at->unfenced[at->unfenced_count++] = *own;
}

/* Whether an event is one of these, to a thread that took the lock as they did. */
static bool is_unfenced(event e, const acquired *it, bool same_block)
{
    const map *lock = it->from;
    for (uint32_t i = 0; it->took && i < lock->unfenced_count; i++) {
        const unfenced *each = &lock->unfenced[i];
        uint16_t last = same_block && each->last_of_block ? each->last_of_block : each->last_of_grid;
        if (each->stage == stage_of(e) && each->number == thread_of(e) && !(e & WIDE) &&
            each->expected == it->expected && each->first <= clock_of(e) &&
            (!last || clock_of(e) <= last))
            return true;
    }
    return false;
}

void synchronise(thread *now, uint64_t address, bool shared)
{
    now->address = address;
    now->address_block = shared ? now->of->number + 1 : 0;
    bool fences = now->of_grid.clock || now->of_block.clock || now->of->has_fences;
    if (!fences && !atomic_load_explicit(&has_maps, memory_order_relaxed))
        return;
    take(&maps_lock);
    map *at = map_at(address, now->address_block, fences);
    if (at) {
        block *of = now->of;
        bool news = false;
        if (!now->takes)
            note_unfenced(at, now);
        if (now->of_grid.clock)
            news |= publish(at, now, &now->of_grid, 0);
        if (now->of_block.clock)
            news |= publish(at, now, &now->of_block, SCOPED);
        bool of_grid = of->has_fences && publish_others(at, now, &news);
        of_grid = of_grid || now->of_grid.clock;
        if (of_grid || now->of_block.clock) {
            /* What operates on this location later comes after this operation. */
            uint64_t mine = (uint64_t)of->stage << KEY_AT | OPERATIONS | now->number;
            news |= note(at, of_grid ? mine : mine | SCOPED, now->clock);
            at->has_scoped = at->has_scoped || !of_grid || now->of_block.clock;
            pass_on(at, of, &now->learnt, !of_grid);
            pass_on(at, of, &of->learnt[now->barriers & 1], !of_grid);
        }
        at->version += news;
    }
    now->operates_on = at;
    give(&maps_lock);
}

static void operated(thread *now, acquired_list *list, bool took, int64_t expected)
{
    if (!now->operates_on && !atomic_load_explicit(&has_maps, memory_order_relaxed))
        return;
    take(&maps_lock);
    /* The first fence may have come between the call in front of the operation and the operation. */
    const map *from = now->operates_on;
    from = from ? from : map_at(now->address, now->address_block, false);
    /* Whoever takes a lock at last has tried in vain before for no other reason. */
    for (uint32_t i = 0; took && i < list->count; i++)
        if (list->each[i].from == from) {
            list->each[i].took = true;
            list->each[i].expected = expected;
        }
    if (from) {
        uint64_t block = from->has_scoped ? now->of->number + 1 : 0;
        learn(list, (acquired){from, block, expected, from->version, .took = took});
    }
    now->operates_on = NULL;
    give(&maps_lock);
}

void haulage_check_operated(void *given)
{
    thread *now = given;
    if (launch.on)
        operated(now, &now->learnt, false, 0);
}

void haulage_check_swapped(void *given, int64_t took, int64_t expected, int64_t desired)
{
    thread *now = given;
    if (!launch.on)
        return;
    if (expected == desired) {
        operated(now, &now->learnt, false, 0); /* a way to read */
        return;
    }
    operated(now, &now->taken, took, took ? expected : 0);
    if (took) {
        tick(now);
        now->last_taken = (unfenced){now->address, now->address_block, expected, now->of->accesses,
                                     now->of->stage, now->number, now->clock, 0, 0};
    }
}

/* A fence behind a lock that was taken. */
static void end_unfenced(thread *now, bool block_only)
{
    unfenced *own = &now->last_taken;
    if (!own->address || own->last_of_grid)
        return;
    if (now->of->accesses == own->accesses && !own->last_of_block) {
        if (!block_only)
            own->address = 0;
        else
            own->last_of_block = own->first - 1; /* nothing was done in front of it */
        return;
    }
    if (!own->last_of_block)
        own->last_of_block = now->clock;
    if (!block_only)
        own->last_of_grid = now->clock;
}

/* A fence or a barrier behind what a thread has taken. */
static void keep_taken(thread *now, bool block_only)
{
    acquired_list *taken = &now->taken;
    end_unfenced(now, block_only);
    for (uint32_t i = 0; i < taken->count; i++) {
        acquired it = taken->each[i];
        if (block_only) {
            it.block = now->of->number + 1;
            it.own_only = true;
        }
        learn(&now->learnt, it);
    }
    now->learnt.many = now->learnt.many || taken->many;
    if (!block_only)
        forget(taken);
}

/* The lists that are being looked through; of so many no more are: then it counts as known. */
enum { MOST_VISITS = 512 };
static acquired visited[MOST_VISITS];

static bool was_visited(const acquired *it, uint32_t visits)
{
    for (uint32_t i = 0; i < visits; i++)
        if (visited[i].from == it->from && visited[i].version >= it->version &&
            visited[i].block == it->block && visited[i].own_only <= it->own_only)
            return true;
    return false;
}

/* Whether an event of a block, from 1 on, is in a list, which is a thread's own or was passed on to
   whoever has learnt `by`. */
static bool is_in(event e, uint64_t of_block, bool same_block, const acquired_list *list,
                  const acquired *by, uint32_t *visits)
{
    if (list->many)
        return true;
    uint64_t stage = (uint64_t)stage_of(e) << KEY_AT;
    uint64_t operation = e & ATOMIC ? stage | OPERATIONS | thread_of(e) : 0;
    uint64_t keys[6] = {stage | thread_of(e), stage | ALL_THREADS, operation,
                        stage | thread_of(e) | SCOPED, stage | ALL_THREADS | SCOPED,
                        operation | SCOPED};
    for (uint32_t i = 0; i < list->count; i++) {
        acquired it = list->each[i];
        if (by && ((it.scoped && it.block != by->block) ||
                   (by->own_only && it.block && it.block != by->block)))
            continue;
        if (was_visited(&it, *visits))
            continue;
        if (*visits == MOST_VISITS)
            return true;
        visited[(*visits)++] = it;
        bool is_own = it.block == of_block;
        int count = is_own ? 6 : it.own_only ? 0 : 3;
        for (int k = 0; k < count && !is_unfenced(e, &it, same_block); k++)
            if (clock_of(e) <= clock_in(it.from, keys[k], it.version))
                return true;
        if (it.version && it.from->learnt.count &&
            is_in(e, of_block, same_block, &it.from->learnt, &it, visits))
            return true;
    }
    return false;
}

static bool is_known(event e, const thread *now)
{
    const acquired_list *of_block = &now->of->learnt[now->barriers & 1];
    if (!now->learnt.count && !of_block->count)
        return false;
    take(&maps_lock);
    uint32_t visits = 0;
    uint64_t block = info_of(e)->block + 1;
    bool same = block == now->of->number + 1;
    bool known = is_in(e, block, same, &now->learnt, NULL, &visits) ||
                 is_in(e, block, same, of_block, NULL, &visits);
    give(&maps_lock);
    return known;
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
        if (of->lanes && !(e & WIDE) && thread_of(e) / LANES == now->number / LANES &&
            clock_of(e) <= of->lanes[now->number][thread_of(e) % LANES])
            return true;
    } else {
        const stage_info *info = info_of(e);
        if (info->block == of->number || info->grid_barriers < of->grid_barriers)
            return true;
    }
    return is_known(e, now);
}

void haulage_check_fence(void *given, int64_t block_only)
{
    thread *now = given;
    if (!launch.on)
        return;
    *(block_only ? &now->of_block : &now->of_grid) = (fenced){now->of->stage, now->clock, now->base};
    if (!block_only) {
        now->of_block.clock = 0;
        now->of->has_fences = true;
    }
    keep_taken(now, block_only);
    tick(now);
}

void haulage_check_barrier(void *given, int64_t site)
{
    thread *now = given;
    if (!launch.on)
        return;
    block *of = now->of;
    keep_taken(now, false);
    int next = (now->barriers + 1) & 1;
    if (of->most[next] < now->clock)
        of->most[next] = now->clock;
    if (of->first_of[next] != now->barriers + 1) {
        of->first_of[next] = now->barriers + 1;
        of->first[next] = event_of(now, (uint32_t)site, 0);
        of->came[next] = 0;
        learn_all(&of->learnt[next], &of->learnt[!next]);
    } else if (site_of(of->first[next]) != (uint32_t)site)
        found(HAULAGE_ANOTHER_BARRIER, now, (uint32_t)site, 0, of->first[next], false);
    of->came[next]++;
    now->came_to = now->barriers + 1;
    learn_all(&of->learnt[next], &now->learnt);
}

void haulage_check_passed(void *given)
{
    thread *now = given;
    if (!launch.on)
        return;
    block *of = now->of;
    int next = ++now->barriers & 1;
    if (of->passed != now->barriers) {
        of->passed = now->barriers;
        /* Those that did not come have ended, before the barrier was complete. */
        if (of->came[next] < launch.threads) {
            bool missed = false;
            for (uint32_t i = 0; i < launch.threads; i++) {
                const thread *other = &of->threads[i];
                missed = missed || (!other->left && other->came_to != of->passed);
                if (of->most[next] < other->clock)
                    of->most[next] = other->clock;
            }
            if (missed)
                found(HAULAGE_MISSED_BARRIER, now, site_of(of->first[next]), 0, 0, false);
        }
    }
    now->base = of->most[next];
    now->clock = now->base;
    tick(now);
    if (now->clock > MOST_CLOCK - 1024) {
        /* All that has the old stage comes before what follows, for threads of this block. */
        of->stage = new_stage(of->number, of->grid_barriers, of->stage);
        of->most[0] = of->most[1] = now->base = 0;
        now->clock = 1;
        if (of->lanes)
            memset(of->lanes, 0, launch.threads * sizeof *of->lanes);
    }
}

/* Codes of so many come in front of the one of threads that left; all others but 0 are faults'. */
enum { ORDINARY_ENDS = 31 };

void haulage_check_ended(void *given, int32_t code, int32_t left)
{
    thread *now = given;
    if (launch.on)
        now->left = code && !(code >= left - ORDINARY_ENDS && code < left);
}

void haulage_check_grid_passed(void *given)
{
    thread *now = given;
    if (!launch.on)
        return;
    haulage_check_passed(given);
    if (++now->grids > now->of->grid_barriers) {
        now->of->grid_barriers = now->grids;
        now->of->stage = new_stage(now->of->number, now->grids, 0);
    }
}

/* ---- lanes of a warp that meet -------------------------------------------------------------------- */

/* Lanes that came together to a barrier of lanes, which then know all that any of them knew, or to an
   exchange of values, which orders nothing. */
struct meeting {
    uint32_t wave;
    uint64_t lanes, here, came;
    bool exchange, over; /* over: somebody has left it */
    uint16_t known[LANES];
    acquired_list learnt;
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

static meeting *meet(thread *now, uint64_t lanes, int64_t site, bool exchange)
{
    block *of = now->of;
    uint32_t wave = now->number / LANES;
    uint64_t own = UINT64_C(1) << now->number % LANES;
    if (!(lanes & own))
        found(HAULAGE_NOT_IN_MASK, now, (uint32_t)site & (SITES - 1), 0, 0, false);
    meeting *at = of->meetings;
    while (at && (at->over || at->exchange != exchange || at->wave != wave || at->lanes != lanes ||
                  (at->here & own)))
        at = at->next;
    if (!at) {
        at = calloc(1, sizeof *at);
        if (!at)
            abort();
        *at = (meeting){.wave = wave, .lanes = lanes, .exchange = exchange, .next = of->meetings};
        of->meetings = at;
    }
    at->here |= own;
    at->came |= own;
    now->met = at;
    return at;
}

static void part(thread *now)
{
    meeting *at = now->met;
    now->met = NULL;
    at->over = true;
    at->here &= ~(UINT64_C(1) << now->number % LANES);
    if (!at->here) {
        meeting **link = &now->of->meetings;
        while (*link != at)
            link = &(*link)->next;
        *link = at->next;
        forget(&at->learnt);
        free(at);
    }
}

void haulage_check_warp(void *given, int64_t lanes, int64_t site)
{
    thread *now = given;
    if (!launch.on)
        return;
    meeting *at = meet(now, (uint64_t)lanes, site, false);
    uint16_t *known = lanes_of(now);
    known[now->number % LANES] = now->clock;
    for (uint32_t i = 0; i < LANES; i++)
        if (at->known[i] < known[i])
            at->known[i] = known[i];
    learn_all(&at->learnt, &now->learnt);
}

void haulage_check_warp_passed(void *given)
{
    thread *now = given;
    if (!launch.on || !now->met)
        return;
    meeting *at = now->met;
    uint16_t *known = lanes_of(now);
    for (uint32_t i = 0; i < LANES; i++) {
        /* Those of the mask that did not come have ended. */
        uint32_t number = at->wave * LANES + i;
        if (!at->over && (at->lanes & ~at->came) >> i & 1 && number < launch.threads)
            at->known[i] = now->of->threads[number].clock;
        if (known[i] < at->known[i])
            known[i] = at->known[i];
    }
    learn_all(&now->learnt, &at->learnt);
    tick(now);
    part(now);
}

static uint64_t lanes_from(const thread *now, int64_t mask, int64_t how)
{
    return (uint64_t)mask << (how & HAULAGE_WIDE_WARP ? 0 : now->number & 32);
}

void haulage_check_exchange(void *given, int64_t mask, int64_t how)
{
    thread *now = given;
    if (launch.on)
        meet(now, lanes_from(now, mask, how), how, true);
}

void haulage_check_exchanged(void *given, int64_t number, int64_t how)
{
    thread *now = given;
    if (!launch.on || !now->met)
        return;
    uint32_t size = how & HAULAGE_WIDE_WARP ? 64 : 32, own = now->number % size;
    uint32_t lane = own, other = (uint32_t)number;
    switch (how >> HAULAGE_KIND_AT) {
    case HAULAGE_FROM_LANE: lane = other; break;
    case HAULAGE_FROM_XOR: lane = own ^ other; break;
    case HAULAGE_FROM_UP: lane = own >= other ? own - other : own; break;
    case HAULAGE_FROM_DOWN: lane = own + other < size ? own + other : own; break;
    }
    if (!(now->met->came >> ((now->number & (LANES - size)) + lane) & 1))
        found(HAULAGE_ABSENT_LANE, now, (uint32_t)how & (SITES - 1), 0, 0, false);
    part(now);
}

/* ---- blocks and threads -------------------------------------------------------------------------- */

/* One that each thread of the system runs, from one block to the next. */
static _Thread_local block *running;
static _Thread_local uint64_t running_launch;

static void clear(block *of)
{
    for (uint32_t i = 0; i < launch.threads; i++) {
        forget(&of->threads[i].learnt);
        forget(&of->threads[i].taken);
    }
    forget(&of->learnt[0]);
    forget(&of->learnt[1]);
    for (meeting *it = of->meetings, *next; it; it = next) {
        next = it->next;
        forget(&it->learnt);
        free(it);
    }
    of->meetings = NULL;
    if (of->lanes)
        memset(of->lanes, 0, launch.threads * sizeof *of->lanes);
}

static void start(block *of, uint64_t number)
{
    of->number = number;
    of->stage = of->first_stage = new_stage(number, 0, 0);
    of->grid_barriers = 0;
    of->has_fences = false;
    of->most[0] = of->most[1] = 0;
    of->first_of[0] = of->first_of[1] = of->passed = 0;
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
            free(it->records);
            free(it->unfenced);
            forget(&it->learnt);
            free(it);
        }
        maps[i] = NULL;
    }
    atomic_store(&has_maps, false);
}

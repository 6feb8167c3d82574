/* Requests of warps, from the accesses of their lanes: see lint_native.h. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lint_native.h"

enum {
    MOST_LANES = 64,
    SECTOR = 32, /* bytes that global memory moves at once */
    WORD = 4,    /* of shared memory, which has so many banks: */
    BANKS = 32,
    /* So many requests of a warp are kept for each group of sites. Of more of them a half, a quarter,
       ... is kept, chosen by their paths alone, so that it does not matter who came first. */
    MOST_KEPT = 512,
    MOST_BYTES = 4096,
};

/* What lanes of one warp do at a site by one path. */
typedef struct slot {
    uint64_t path, here, taken;
    uint32_t warp, site;
    struct slot *next; /* of the same warp and group */
    uint64_t at[];     /* of each lane: the address, or how often it came */
} slot;

typedef struct {
    slot *first;
    uint32_t count, level;
} bin;

typedef struct block block;

typedef struct {
    block *of;
    uint32_t warp, lane;
    bool works;
} lane_state;

struct block {
    uint64_t number, accesses;
    bool measured;
    slot **table;
    uint64_t room, filled;
    char *memory; /* of slots, in parts */
    uint64_t memory_used;
    bin *bins;
    uint64_t *counts; /* of each site */
    block *next;
    lane_state threads[];
};

enum { PART = 1 << 18 };

static struct {
    bool on, keeps;
    haulage_lint_site *sites;
    haulage_lint_figures *of_sites, *of_groups;
    uint64_t *measured;
    haulage_lint_shift *shifts;
    uint32_t shift_count;
    uint64_t measured_count, number, accesses, threads_seen, threads_idle;
    uint32_t count, groups, threads, lanes, warps;
    _Atomic(block *) blocks;
} launch;

static atomic_flag folding = ATOMIC_FLAG_INIT;

static uint64_t mixed(uint64_t value)
{
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdu;
    value ^= value >> 33;
    value *= 0xc4ceb9fe1a85ec53u;
    return value ^ value >> 33;
}

/* ---- slots ------------------------------------------------------------------------------------- */

static bool is_kept(uint64_t path, uint32_t level)
{
    return !(mixed(path) & ((UINT64_C(1) << level) - 1));
}

static void *memory_for_slot(block *of)
{
    uint64_t nbytes = sizeof(slot) + launch.lanes * sizeof(uint64_t);
    if (!of->memory || of->memory_used + nbytes > PART) {
        /* Each part begins with the address of the one before it. */
        char *part = malloc(PART);
        if (!part)
            abort();
        *(char **)part = of->memory;
        of->memory = part;
        of->memory_used = sizeof(char *);
    }
    void *made = of->memory + of->memory_used;
    of->memory_used += nbytes;
    return made;
}

static slot **place_of(const block *of, uint64_t path, uint32_t warp, uint32_t site)
{
    uint64_t at = mixed(path ^ ((uint64_t)warp << 32 | site));
    for (;; at++) {
        slot **place = &of->table[at & (of->room - 1)];
        slot *it = *place;
        if (!it || (it->path == path && it->warp == warp && it->site == site))
            return place;
    }
}

static void grow(block *of)
{
    slot **old = of->table;
    uint64_t room = of->room;
    of->room = room ? 2 * room : 1024;
    of->table = calloc(of->room, sizeof *of->table);
    if (!of->table)
        abort();
    for (uint64_t i = 0; i < room; i++)
        if (old[i])
            *place_of(of, old[i]->path, old[i]->warp, old[i]->site) = old[i];
    free(old);
}

static void thin(bin *in)
{
    while (in->count > MOST_KEPT && in->level < 63) {
        in->level++;
        in->count = 0;
        slot **link = &in->first;
        for (slot *it; (it = *link);) {
            if (is_kept(it->path, in->level)) {
                in->count++;
                link = &it->next;
            } else
                /* It stays in the table, where its path is never looked for again. */
                *link = it->next;
        }
    }
}

/* The slot of a path; NULL: it is not kept. */
static slot *slot_of(lane_state *now, uint32_t site, uint64_t path)
{
    block *of = now->of;
    bin *in = &of->bins[(uint64_t)now->warp * launch.groups + launch.sites[site].group];
    if (!is_kept(path, in->level))
        return NULL;
    if (2 * of->filled >= of->room)
        grow(of);
    slot **place = place_of(of, path, now->warp, site);
    if (!*place) {
        slot *made = memory_for_slot(of);
        *made = (slot){.path = path, .warp = now->warp, .site = site, .next = in->first};
        memset(made->at, 0, launch.lanes * sizeof *made->at);
        in->first = *place = made;
        of->filled++;
        if (++in->count > MOST_KEPT) {
            thin(in);
            if (!is_kept(path, in->level))
                return NULL;
        }
    }
    return *place;
}

/* The first slot of a path that the lane has not come to: a path comes again where control flow has
   a cycle that is no loop. */
static slot *new_to(lane_state *now, uint32_t site, uint64_t path)
{
    slot *it;
    while ((it = slot_of(now, site, path)) && it->here >> now->lane & 1)
        path = mixed(path + 1);
    return it;
}

/* ---- one request ------------------------------------------------------------------------------- */

typedef struct {
    uint64_t start, nbytes;
} interval;

static int by_start(const void *one, const void *other)
{
    uint64_t a = ((const interval *)one)->start, b = ((const interval *)other)->start;
    return a < b ? -1 : a > b;
}

static int by_number(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static uint32_t add_intervals(const slot *of, interval *at)
{
    uint32_t count = 0, nbytes = launch.sites[of->site].nbytes;
    for (uint32_t lane = 0; lane < launch.lanes; lane++)
        if (of->here >> lane & 1)
            at[count++] = (interval){of->at[lane], nbytes};
    return count;
}

/* The sectors that hold some bytes, and how few could hold as many. */
static void count_sectors(interval *at, uint32_t count, uint64_t *sectors, uint64_t *least)
{
    bool sorted = true;
    for (uint32_t i = 1; i < count && sorted; i++)
        sorted = at[i - 1].start <= at[i].start;
    if (!sorted)
        qsort(at, count, sizeof *at, by_start);
    uint64_t bytes = 0, found = 0, end = 0, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t first = at[i].start, behind = first + at[i].nbytes;
        if (behind > end)
            bytes += behind - (first > end ? first : end);
        uint64_t low = first / SECTOR, high = (behind - 1) / SECTOR + 1;
        low = low > next ? low : next;
        if (high > low) {
            found += high - low;
            next = high;
        }
        end = behind > end ? behind : end;
    }
    *sectors += found;
    *least += (bytes + SECTOR - 1) / SECTOR;
}

/* Of a request of shared memory: in how many parts it is made, and how many steps these take; gives
   the steps of the slowest one. */
static uint64_t count_ways(const slot *of, uint64_t *parts, uint64_t *steps)
{
    uint32_t words = (launch.sites[of->site].nbytes + WORD - 1) / WORD;
    uint32_t together = words < BANKS ? BANKS / words : 1;
    uint64_t each[MOST_LANES + MOST_BYTES / WORD], worst = 0;
    for (uint32_t first = 0; first < launch.lanes; first += together) {
        uint32_t count = 0, used[BANKS] = {0}, most = 0;
        for (uint32_t lane = first; lane < first + together && lane < launch.lanes; lane++)
            if (of->here >> lane & 1)
                for (uint64_t word = 0; word < words; word++)
                    each[count++] = of->at[lane] / WORD + word;
        if (!count)
            continue;
        bool sorted = true;
        for (uint32_t i = 1; i < count && sorted; i++)
            sorted = each[i - 1] <= each[i];
        if (!sorted)
            qsort(each, count, sizeof *each, by_number);
        for (uint32_t i = 0; i < count; i++)
            if (!i || each[i] != each[i - 1]) {
                uint32_t ways = ++used[each[i] % BANKS];
                most = ways > most ? ways : most;
            }
        /* One lane's own words take as many steps anyway. */
        uint32_t alone = (words + BANKS - 1) / BANKS;
        most = most > alone ? most : alone;
        *parts += alone;
        *steps += most;
        worst = most > worst ? most : worst;
    }
    return worst;
}

/* ---- a block ------------------------------------------------------------------------------------ */

static int by_path(const void *one, const void *other)
{
    const slot *a = *(slot *const *)one, *b = *(slot *const *)other;
    return a->path < b->path ? -1 : a->path > b->path;
}

/* Figures of accesses: requests; of those, how many were looked at. Of global ones: sectors, the fewest
   that would do, and those that a warp takes whose lanes are all side by side. Of shared ones: parts,
   steps, and the steps of the slowest. Of a group of global accesses: 0, 0, and both
   numbers of sectors of all its requests by one path together. Of branches: times, looked at, times that
   lanes went both ways, lanes, lanes that waited. Of loops the same, but that lanes count for each
   iteration of their warp. Of counts: operations. */
static void fold_bin(const bin *in)
{
    static slot *sorted[MOST_KEPT + 1];
    static interval joined[MOST_LANES * (MOST_KEPT + 1)];
    uint64_t weight = UINT64_C(1) << in->level;
    uint32_t count = 0;
    for (slot *it = in->first; it && count <= MOST_KEPT; it = it->next)
        sorted[count++] = it;
    for (uint32_t i = 0; i < count; i++) {
        const slot *it = sorted[i];
        const haulage_lint_site *site = &launch.sites[it->site];
        uint64_t *made = launch.of_sites[it->site], first = 0, second = 0;
        uint64_t lanes = (uint64_t)__builtin_popcountll(it->here);
        made[0] += weight;
        made[1]++;
        if (site->kind == HAULAGE_LINT_GLOBAL) {
            interval own[MOST_LANES];
            count_sectors(own, add_intervals(it, own), &first, &second);
            made[2] += weight * first;
            made[3] += weight * second;
            made[4] += weight * ((launch.lanes * site->nbytes + SECTOR - 1) / SECTOR);
        } else if (site->kind == HAULAGE_LINT_SHARED) {
            uint64_t worst = count_ways(it, &first, &second);
            made[2] += weight * first;
            made[3] += weight * second;
            made[4] = worst > made[4] ? worst : made[4];
        } else if (site->kind == HAULAGE_LINT_BRANCH) {
            uint64_t taken = (uint64_t)__builtin_popcountll(it->taken), waits = 0;
            /* Where both sides do something they are run one after the other. */
            uint64_t turns = 1;
            if (taken && taken < lanes) {
                made[2] += weight;
                waits = site->waits ? lanes - taken : site->taken_waits ? taken : lanes;
                turns = site->waits || site->taken_waits ? 1 : 2;
            }
            made[3] += weight * lanes * turns;
            made[4] += weight * waits;
        } else if (site->kind == HAULAGE_LINT_LOOP) {
            uint64_t most = 0, all = 0, least = UINT64_MAX;
            for (uint32_t lane = 0; lane < launch.lanes; lane++)
                if (it->here >> lane & 1) {
                    uint64_t times = it->at[lane] - site->exits;
                    most = times > most ? times : most;
                    least = times < least ? times : least;
                    all += times;
                }
            made[2] += weight * (least < most);
            made[3] += weight * most * lanes;
            made[4] += weight * (most * lanes - all);
            made[5] += weight * most;
        }
    }
    if (!count || launch.sites[sorted[0]->site].kind != HAULAGE_LINT_GLOBAL)
        return;
    qsort(sorted, count, sizeof *sorted, by_path);
    uint64_t *made = launch.of_groups[launch.sites[sorted[0]->site].group];
    for (uint32_t i = 0; i < count;) {
        uint64_t path = sorted[i]->path, sectors = 0, least = 0;
        uint32_t each = 0;
        for (; i < count && sorted[i]->path == path; i++)
            each += add_intervals(sorted[i], joined + each);
        count_sectors(joined, each, &sectors, &least);
        made[2] += weight * sectors;
        made[3] += weight * least;
    }
}

static void fold(block *of)
{
    if (!of->measured)
        return;
    while (atomic_flag_test_and_set_explicit(&folding, memory_order_acquire)) {
    }
    for (uint64_t i = 0; i < (uint64_t)launch.warps * launch.groups; i++)
        fold_bin(&of->bins[i]);
    for (uint32_t i = 0; i < launch.count; i++)
        if (launch.sites[i].kind == HAULAGE_LINT_COUNT)
            launch.of_sites[i][0] += of->counts[i];
    launch.accesses += of->accesses;
    launch.threads_seen += launch.threads;
    for (uint32_t i = 0; i < launch.threads; i++)
        launch.threads_idle += !of->threads[i].works;
    atomic_flag_clear_explicit(&folding, memory_order_release);
}

static bool is_measured(uint64_t number)
{
    if (!launch.measured)
        return true;
    uint64_t low = 0, high = launch.measured_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (launch.measured[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < launch.measured_count && launch.measured[low] == number;
}

static void start(block *of, uint64_t number)
{
    of->number = number;
    of->accesses = 0;
    of->measured = is_measured(number);
    if (!of->measured)
        return;
    of->filled = 0;
    if (of->table)
        memset(of->table, 0, of->room * sizeof *of->table);
    while (of->memory && *(char **)of->memory) {
        char *before = *(char **)of->memory;
        free(of->memory);
        of->memory = before;
    }
    of->memory_used = sizeof(char *);
    memset(of->bins, 0, (uint64_t)launch.warps * launch.groups * sizeof *of->bins);
    memset(of->counts, 0, launch.count * sizeof *of->counts);
    for (uint32_t i = 0; i < launch.threads; i++)
        of->threads[i] = (lane_state){of, i / launch.lanes, i % launch.lanes, false};
}

static block *new_block(uint64_t number)
{
    block *made = calloc(1, sizeof *made + launch.threads * sizeof *made->threads);
    if (!made)
        abort();
    made->bins = calloc((uint64_t)launch.warps * launch.groups + 1, sizeof *made->bins);
    made->counts = calloc(launch.count + 1, sizeof *made->counts);
    if (!made->bins || !made->counts)
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

/* ---- for kernels -------------------------------------------------------------------------------- */

static _Thread_local block *running;
static _Thread_local uint64_t running_launch;

void *haulage_lint_thread(int64_t number, int32_t index)
{
    if (!launch.on)
        return NULL;
    if (!running || running_launch != launch.number || running->number != (uint64_t)number) {
        if (launch.keeps)
            running = kept_block((uint64_t)number);
        else if (!running || running_launch != launch.number)
            running = new_block((uint64_t)number);
        else {
            fold(running);
            start(running, (uint64_t)number);
        }
        running_launch = launch.number;
    }
    return running->measured ? &running->threads[index] : NULL;
}

void haulage_lint_access(void *given, const void *address, int64_t site, int64_t path)
{
    lane_state *now = given;
    if (!now)
        return;
    now->works = true;
    now->of->accesses++;
    slot *it = new_to(now, (uint32_t)site, (uint64_t)path);
    if (!it)
        return;
    it->here |= UINT64_C(1) << now->lane;
    uint64_t at = (uintptr_t)address;
    for (uint32_t i = 0; i < launch.shift_count; i++)
        if (at - launch.shifts[i].low < launch.shifts[i].high - launch.shifts[i].low) {
            at -= launch.shifts[i].beyond;
            break;
        }
    it->at[now->lane] = at;
}

void haulage_lint_branch(void *given, int64_t site, int64_t path, int64_t taken)
{
    lane_state *now = given;
    slot *it = now ? new_to(now, (uint32_t)site, (uint64_t)path) : NULL;
    if (!it)
        return;
    it->here |= UINT64_C(1) << now->lane;
    it->taken |= (uint64_t)taken << now->lane;
}

void haulage_lint_loop(void *given, int64_t site, int64_t entered)
{
    lane_state *now = given;
    if (!now)
        return;
    now->works = true;
    slot *it = slot_of(now, (uint32_t)site, (uint64_t)entered);
    if (!it)
        return;
    it->here |= UINT64_C(1) << now->lane;
    it->at[now->lane]++;
}

void haulage_lint_count(void *given, int64_t site, int64_t operations)
{
    lane_state *now = given;
    if (!now)
        return;
    now->works = true;
    now->of->counts[site] += (uint64_t)operations;
}

void haulage_lint_works(void *given)
{
    lane_state *now = given;
    if (now)
        now->works = true;
}

/* ---- a launch ------------------------------------------------------------------------------------ */

static void release(void)
{
    free(launch.sites);
    free(launch.of_sites);
    free(launch.of_groups);
    free(launch.measured);
    free(launch.shifts);
    launch.sites = NULL;
    launch.of_sites = launch.of_groups = NULL;
    launch.measured = NULL;
    launch.shifts = NULL;
}

int haulage_lint_begin(const haulage_lint_site *sites, uint32_t count, uint32_t groups,
                       uint32_t threads, uint32_t lanes, const uint64_t *measured,
                       uint64_t measured_count, const haulage_lint_shift *shifts,
                       uint32_t shift_count, bool keeps)
{
    release();
    launch.sites = calloc(count + 1, sizeof *launch.sites);
    launch.of_sites = calloc(count + 1, sizeof *launch.of_sites);
    launch.of_groups = calloc(groups + 1, sizeof *launch.of_groups);
    launch.measured = measured ? calloc(measured_count + 1, sizeof *measured) : NULL;
    launch.shifts = calloc(shift_count + 1, sizeof *launch.shifts);
    if (!launch.sites || !launch.of_sites || !launch.of_groups || !launch.shifts ||
        (measured && !launch.measured)) {
        release();
        return -1;
    }
    memcpy(launch.sites, sites, count * sizeof *sites);
    if (measured)
        memcpy(launch.measured, measured, measured_count * sizeof *measured);
    memcpy(launch.shifts, shifts, shift_count * sizeof *shifts);
    launch.shift_count = shift_count;
    launch.measured_count = measured_count;
    launch.count = count;
    launch.groups = groups;
    launch.threads = threads;
    launch.lanes = lanes;
    launch.warps = (threads + lanes - 1) / lanes;
    launch.keeps = keeps;
    launch.accesses = launch.threads_seen = launch.threads_idle = 0;
    launch.number++;
    launch.on = true;
    return 0;
}

uint64_t haulage_lint_end(haulage_lint_figures *sites, haulage_lint_figures *groups,
                          uint64_t threads[2])
{
    launch.on = false;
    for (block *it = atomic_exchange(&launch.blocks, NULL), *next; it; it = next) {
        next = it->next;
        fold(it);
        for (char *part = it->memory, *before; part; part = before) {
            before = *(char **)part;
            free(part);
        }
        free(it->table);
        free(it->bins);
        free(it->counts);
        free(it);
    }
    memcpy(sites, launch.of_sites, launch.count * sizeof *sites);
    memcpy(groups, launch.of_groups, launch.groups * sizeof *groups);
    threads[0] = launch.threads_seen;
    threads[1] = launch.threads_idle;
    return launch.accesses;
}

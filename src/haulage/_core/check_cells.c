/* What is remembered of each location, and what is wrong with an access.

   A cell stands for 1 to 16 bytes: as many as the smallest access that the kernel makes there. It has
   the last plain write, and what was done since by others: reads and atomic operations. Two accesses of
   one cell, of which one is a plain write or just one is atomic, are a race unless one of them comes
   first (check_order.c). A write that all of these come before takes their place: what races with one
   of them later races with it, too. So a cell has one event of each sort, or a set of events where
   several threads read, or operate, between two writes. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check_internal.h"

/* ---- what was found --------------------------------------------------------------------------- */

enum { MOST_FOUND = 1 << 12 };

static haulage_check_found all_found[MOST_FOUND];
static uint32_t found_count;
static atomic_flag found_lock = ATOMIC_FLAG_INIT;

static uint32_t array_at(const block *of, uint64_t address)
{
    uint32_t last = HAULAGE_NO_ARRAY;
    for (uint32_t i = 0; i < HAULAGE_ARRAYS; i++)
        if (of->arrays[i] && of->arrays[i] <= address &&
            (last == HAULAGE_NO_ARRAY || of->arrays[i] > of->arrays[last]))
            last = i;
    return last;
}

void haulage_check_array(void *given, const void *address, int64_t number)
{
    thread *now = given;
    if (launch.on && number >= 0 && number < HAULAGE_ARRAYS)
        now->of->arrays[number] = (uintptr_t)address;
}

void found(uint32_t kind, const thread *now, uint32_t site, uint64_t address, event other, bool same)
{
    uint32_t other_site = other ? site_of(other) : 0;
    while (atomic_flag_test_and_set_explicit(&found_lock, memory_order_acquire)) {
    }
    haulage_check_found *it = all_found;
    for (uint32_t i = 0; i < found_count; i++, it++)
        if (it->kind == kind && it->site == site && it->has_other == (other != 0) &&
            (!other || it->other == other_site))
            break;
    if (it == all_found + found_count && found_count < MOST_FOUND) {
        found_count++;
        uint32_t array = array_at(now->of, address);
        *it = (haulage_check_found){
            .kind = kind, .site = site, .other = other_site, .thread = now->number,
            .other_thread = other ? thread_of(other) : 0, .block = now->of->number,
            .other_block = other ? block_of(other) : 0, .address = address, .same = same,
            .has_other = other != 0, .array = array,
            .origin = array < HAULAGE_NO_ARRAY ? now->of->arrays[array] : 0,
        };
    }
    if (it < all_found + found_count) {
        it->count++;
        it->same = it->same && same;
    }
    atomic_flag_clear_explicit(&found_lock, memory_order_release);
}

void haulage_check_at(uint32_t number, haulage_check_found *at) { *at = all_found[number]; }

/* ---- locks -------------------------------------------------------------------------------------- */

enum { LOCKS = 1 << 12 };
static atomic_flag locks[LOCKS];

/* Other blocks may look at a cell of global memory at the same time. */
static inline atomic_flag *lock_of(const cell *at, bool shared)
{
    if (shared || !launch.parallel)
        return NULL;
    atomic_flag *lock = &locks[((uintptr_t)at >> 4) * 0x9e3779b97f4a7c15u >> 52 & (LOCKS - 1)];
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) {
    }
    return lock;
}

static inline void unlock(atomic_flag *lock)
{
    if (lock)
        atomic_flag_clear_explicit(lock, memory_order_release);
}

/* ---- sets of events -------------------------------------------------------------------------- */

typedef struct {
    uint32_t count, room;
    event *each;
} set;

enum { SET_CHUNK = 1 << 10, SET_CHUNKS = 1 << 14, MANY = 48, MOST = 1 << 14 };

static _Atomic(set *) sets[SET_CHUNKS];
static _Atomic uint32_t set_count;

/* An event that says which set there is: its stage says of which launch. */
static event new_set(const thread *now)
{
    uint32_t number = atomic_fetch_add(&set_count, 1);
    if (number / SET_CHUNK >= SET_CHUNKS)
        return 0;
    _Atomic(set *) *chunk = &sets[number / SET_CHUNK];
    set *known = atomic_load(chunk);
    if (known == NULL) {
        set *made = calloc(SET_CHUNK, sizeof *made);
        if (made == NULL)
            abort();
        if (!atomic_compare_exchange_strong(chunk, &known, made))
            free(made);
        known = atomic_load(chunk);
    }
    known[number % SET_CHUNK].count = 0;
    return (uint64_t)now->of->stage << STAGE_AT | (uint64_t)number << SITE_AT | SET;
}

static inline set *set_of(event e)
{
    uint64_t number = (e & ((UINT64_C(1) << STAGE_AT) - 1)) >> SITE_AT;
    return &atomic_load_explicit(&sets[number / SET_CHUNK], memory_order_acquire)[number % SET_CHUNK];
}

static int by_thread(const void *one, const void *other)
{
    event a = *(const event *)one, b = *(const event *)other;
    uint64_t x = (a & ATOMIC) << 63 | a >> THREAD_AT << 18 | clock_of(a);
    uint64_t y = (b & ATOMIC) << 63 | b >> THREAD_AT << 18 | clock_of(b);
    return x < y ? -1 : x > y;
}

/* Of each thread the last event; of the blocks with many threads, one for all of these. */
static void shrink(set *of)
{
    qsort(of->each, of->count, sizeof *of->each, by_thread);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        event e = of->each[i];
        if (kept && !((of->each[kept - 1] ^ e) & (ATOMIC | WIDE)) &&
            of->each[kept - 1] >> THREAD_AT == e >> THREAD_AT)
            of->each[kept - 1] = e;
        else
            of->each[kept++] = e;
    }
    of->count = kept;
    kept = 0;
    for (uint32_t i = 0; i < of->count;) {
        uint32_t end = i + 1;
        event widest = of->each[i];
        for (; end < of->count && stage_of(of->each[end]) == stage_of(of->each[i]) &&
               !((of->each[end] ^ of->each[i]) & ATOMIC);
             end++)
            if (clock_of(widest) < clock_of(of->each[end]))
                widest = of->each[end];
        if (end - i > MANY)
            of->each[kept++] = widest | WIDE;
        else
            for (uint32_t k = i; k < end; k++)
                of->each[kept++] = of->each[k];
        i = end;
    }
    of->count = kept;
}

static void put(set *in, event e)
{
    if (in->count == in->room) {
        if (in->room >= MANY)
            shrink(in);
        if (2 * in->count >= in->room && in->room < MOST) {
            uint32_t room = in->room ? 2 * in->room : 8;
            event *grown = realloc(in->each, room * sizeof *grown);
            if (!grown)
                abort();
            in->each = grown;
            in->room = room;
        }
        if (in->count == in->room)
            in->count--; /* one of so many more does not matter: those left race as well */
    }
    in->each[in->count++] = e;
}

/* ---- one cell ------------------------------------------------------------------------------------- */

/* Whether what is remembered is of this launch, and in shared memory of this block. */
static inline bool holds(event e, const thread *now, bool shared)
{
    return e && (shared ? stage_of(e) >= now->of->first_stage : is_of_launch(e));
}

static inline bool conflicts(event e, const thread *now)
{
    return !(stage_of(e) == now->of->stage && thread_of(e) == now->number && !(e & WIDE)) &&
           !comes_first(e, now);
}

enum { READS = 1, ATOMICS = 2 };

static void remember(cell *at, thread *now, event mine, bool shared)
{
    event others = at->others;
    if (!holds(others, now, shared)) {
        at->others = mine;
        return;
    }
    if (!(others & SET)) {
        if (!((others ^ mine) & ATOMIC) && !conflicts(others, now)) {
            at->others = mine;
            return;
        }
        event made = new_set(now);
        if (!made)
            return;
        put(set_of(made), others);
        put(set_of(made), mine);
        at->others = made;
        return;
    }
    set *in = set_of(others);
    event last = in->count ? in->each[in->count - 1] : 0;
    if (last && !((last ^ mine) & (ATOMIC | WIDE)) && last >> THREAD_AT == mine >> THREAD_AT) {
        in->each[in->count - 1] = mine;
        return;
    }
    /* Most often all that is there comes first, as it is from before a barrier. */
    bool all_before = last && !conflicts(last, now) && !conflicts(in->each[0], now);
    if (all_before && in->count <= MANY) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < in->count; i++)
            if (conflicts(in->each[i], now) || (in->each[i] ^ mine) & ATOMIC)
                in->each[kept++] = in->each[i];
        in->count = kept;
    }
    for (uint32_t i = 0; i < in->count && i < 2; i++) {
        event wide = in->each[i];
        if (wide & WIDE && stage_of(wide) == stage_of(mine) && clock_of(wide) >= clock_of(mine) &&
            !((wide ^ mine) & ATOMIC))
            return;
    }
    put(in, mine);
}

static void race(thread *now, int64_t how, uint64_t address, event other, bool same)
{
    found(HAULAGE_RACE, now, (uint32_t)how & (SITES - 1), address, other, same);
}

/* Tells of each of the others that is atomic, or is none, or any, and that does not come first; of
   several at one site once. */
static void look(event others, thread *now, int64_t how, uint64_t address, int kinds)
{
    const event *each = &others;
    uint32_t count = 1;
    if (others & SET) {
        each = set_of(others)->each;
        count = set_of(others)->count;
    }
    event told = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kinds >> (each[i] & ATOMIC) & 1 && (!told || site_of(told) != site_of(each[i])) &&
            conflicts(each[i], now)) {
            told = each[i];
            race(now, how, address, told, false);
        }
}

static inline void read_cell(cell *at, thread *now, int64_t how, uint64_t address, bool shared)
{
    event write = at->write, mine = event_of(now, (uint32_t)how & (SITES - 1), 0);
    if (holds(write, now, shared) && conflicts(write, now))
        race(now, how, address, write, false);
    event others = at->others;
    if (holds(others, now, shared)) {
        if (others >> THREAD_AT == mine >> THREAD_AT && !(others & (SET | ATOMIC))) {
            at->others = mine;
            return;
        }
        look(others, now, how, address, ATOMICS);
    }
    remember(at, now, mine, shared);
}

static inline void write_cell(cell *at, thread *now, int64_t how, uint64_t address, bool shared,
                              bool same)
{
    if (holds(at->write, now, shared) && conflicts(at->write, now))
        race(now, how, address, at->write, same);
    if (holds(at->others, now, shared))
        look(at->others, now, how, address, READS | ATOMICS);
    at->write = event_of(now, (uint32_t)how & (SITES - 1), 0);
    at->others = 0;
}

static inline void operate_cell(cell *at, thread *now, int64_t how, uint64_t address, bool shared)
{
    if (holds(at->write, now, shared) && conflicts(at->write, now))
        race(now, how, address, at->write, false);
    /* A load by itself is right beside reads and atomic operations: a later write is seen when the
       thread looks again. */
    if (how & HAULAGE_ONLY_READS)
        return;
    if (holds(at->others, now, shared))
        look(at->others, now, how, address, READS);
    remember(at, now, event_of(now, (uint32_t)how & (SITES - 1), ATOMIC), shared);
}

/* ---- from addresses to cells ---------------------------------------------------------------------- */

typedef struct {
    cell *cells; /* NULL: races are not looked for there */
    uint8_t *written;
    uint32_t shift, within; /* of the first byte in the first cell */
    bool shared;
} location;

static page *new_page(block *of, uint64_t key)
{
    if (2 * of->page_count >= of->page_room) {
        uint32_t room = of->page_room ? 2 * of->page_room : 64;
        page **grown = calloc(room, sizeof *grown);
        if (!grown)
            abort();
        for (uint32_t i = 0; i < of->page_room; i++)
            if (of->pages[i]) {
                uint64_t at = of->pages[i]->key;
                while (grown[at & (room - 1)])
                    at++;
                grown[at & (room - 1)] = of->pages[i];
            }
        free(of->pages);
        of->pages = grown;
        of->page_room = room;
    }
    page *made = calloc(1, sizeof *made);
    if (made)
        made->cells = calloc(PAGE_BYTES >> launch.shared_shift, sizeof *made->cells);
    if (!made || !made->cells)
        abort();
    made->key = key;
    made->stage = of->first_stage;
    uint64_t at = key;
    while (of->pages[at & (of->page_room - 1)])
        at++;
    of->pages[at & (of->page_room - 1)] = made;
    of->page_count++;
    return made;
}

static inline page *page_at(block *of, uint64_t address)
{
    uint64_t key = address / PAGE_BYTES;
    page *it = of->last_page;
    if (!it || it->key != key) {
        it = NULL;
        if (of->page_room)
            for (uint64_t at = key; (it = of->pages[at & (of->page_room - 1)]) && it->key != key; at++) {
            }
        if (!it)
            it = new_page(of, key);
        of->last_page = it;
    }
    if (it->stage != of->first_stage) {
        it->stage = of->first_stage;
        memset(it->written, 0, sizeof it->written);
    }
    return it;
}

/* The last access outside of all ranges, of each thread of the system. */
typedef struct {
    uint64_t address, block;
    uint32_t thread, site, size;
} stray_access;

enum { STRAYS = 1 << 8 };
static stray_access strays[STRAYS];
static _Atomic uint32_t stray_threads;
static _Thread_local uint32_t stray_thread;

static __attribute__((noinline)) void note_stray(const thread *now, uint64_t address, int64_t how)
{
    if (!stray_thread)
        stray_thread = 1 + atomic_fetch_add(&stray_threads, 1) % STRAYS;
    strays[stray_thread - 1] =
        (stray_access){address, now->of->number, now->number, (uint32_t)how & (SITES - 1),
                       (uint32_t)(how >> HAULAGE_SIZE_AT) & 255};
}

bool haulage_check_stray(uint64_t address, haulage_check_found *at)
{
    for (uint32_t i = 0; i < STRAYS; i++)
        if (address - strays[i].address < strays[i].size) {
            *at = (haulage_check_found){.site = strays[i].site, .block = strays[i].block,
                                        .thread = strays[i].thread};
            return true;
        }
    return false;
}

static inline bool locate(const thread *now, uint64_t address, int64_t how, location *at)
{
    if (how & HAULAGE_SHARED) {
        page *in = page_at(now->of, address);
        uint32_t offset = address % PAGE_BYTES;
        *at = (location){launch.races ? in->cells + (offset >> launch.shared_shift) : NULL,
                         launch.unwritten ? in->written + offset : NULL, launch.shared_shift,
                         offset & ((1u << launch.shared_shift) - 1), true};
        return true;
    }
    uint32_t number = (uint32_t)(how >> HAULAGE_RANGE_AT) & 255;
    if (number >= launch.count || address - launch.ranges[number].low >=
                                      launch.ranges[number].high - launch.ranges[number].low) {
        for (number = 0; number < launch.count; number++)
            if (address - launch.ranges[number].low <
                launch.ranges[number].high - launch.ranges[number].low)
                break;
        if (number == launch.count) {
            note_stray(now, address, how);
            return false;
        }
    }
    const haulage_check_range *in = &launch.ranges[number];
    uint64_t cell_number = (address >> in->shift) - (in->low >> in->shift);
    *at = (location){launch.cells[number] ? launch.cells[number] + cell_number : NULL,
                     in->written ? in->written + (address - in->low) : NULL, in->shift,
                     (uint32_t)address & ((1u << in->shift) - 1), false};
    return true;
}

static inline uint32_t size_of(int64_t how) { return (uint32_t)(how >> HAULAGE_SIZE_AT) & 255; }

static inline uint32_t cells_of(const location *at, uint32_t size)
{
    return (at->within + size - 1) >> at->shift;
}

static void check_written(thread *now, int64_t how, uint64_t address, const location *at)
{
    uint32_t size = size_of(how);
    for (uint32_t i = 0; i < size; i++)
        if (!at->written[i]) {
            found(HAULAGE_UNWRITTEN, now, (uint32_t)how & (SITES - 1), address + i, 0, false);
            return;
        }
}

/* Each part of an access that lies within a page. */
#define FOR_PARTS(address, how)                                                                        \
    for (uint64_t whole = size_of(how), behind = (address) + whole; (address) < behind;                \
         (address) += size_of(how))                                                                    \
        if ((how) = part_of(address, how, behind), true)

static inline int64_t part_of(uint64_t address, int64_t how, uint64_t behind)
{
    uint64_t left = behind - address;
    if (how & HAULAGE_SHARED) {
        uint64_t until = PAGE_BYTES - address % PAGE_BYTES;
        left = left < until ? left : until;
    }
    return (how & ~(INT64_C(255) << HAULAGE_SIZE_AT)) | (int64_t)left << HAULAGE_SIZE_AT;
}

void haulage_check_read(void *given, const void *pointer, int64_t how)
{
    thread *now = given;
    if (!launch.on)
        return;
    uint64_t address = (uintptr_t)pointer;
    now->of->accesses++;
    FOR_PARTS(address, how) {
        location at;
        if (!locate(now, address, how, &at))
            return;
        if (at.written)
            check_written(now, how, address, &at);
        if (!at.cells)
            continue;
        for (uint32_t i = 0; i <= cells_of(&at, size_of(how)); i++) {
            atomic_flag *lock = lock_of(&at.cells[i], at.shared);
            read_cell(&at.cells[i], now, how, address, at.shared);
            unlock(lock);
        }
    }
}

void haulage_check_write(void *given, const void *pointer, int64_t how, int64_t value)
{
    thread *now = given;
    if (!launch.on)
        return;
    uint64_t address = (uintptr_t)pointer;
    bool has_value = how & HAULAGE_HAS_VALUE, same = false;
    uint32_t size = size_of(how);
    now->of->accesses++;
    FOR_PARTS(address, how) {
        location at;
        if (!locate(now, address, how, &at))
            return;
        if (has_value) {
            /* Now that there is memory. */
            same = !memcmp(pointer, &value, size);
            has_value = false;
        }
        if (at.written)
            memset(at.written, 1, size_of(how));
        if (!at.cells)
            continue;
        for (uint32_t i = 0; i <= cells_of(&at, size_of(how)); i++) {
            atomic_flag *lock = lock_of(&at.cells[i], at.shared);
            write_cell(&at.cells[i], now, how, address, at.shared, same);
            unlock(lock);
        }
    }
}

void haulage_check_unwritten(void *given, int64_t offset, int64_t how)
{
    if (launch.on)
        found(HAULAGE_UNWRITTEN, given, (uint32_t)how & (SITES - 1), (uint64_t)offset, 0, false);
}

void haulage_check_atomic(void *given, const void *pointer, int64_t how)
{
    thread *now = given;
    if (!launch.on)
        return;
    uint64_t address = (uintptr_t)pointer;
    now->of->accesses++;
    now->takes = how & HAULAGE_TAKES;
    if (launch.races)
        synchronise(now, address, how & HAULAGE_SHARED);
    location at;
    if (!locate(now, address, how, &at))
        return;
    if (at.written) {
        check_written(now, how, address, &at);
        if (!(how & HAULAGE_ONLY_READS))
            memset(at.written, 1, size_of(how));
    }
    if (!at.cells)
        return;
    for (uint32_t i = 0; i <= cells_of(&at, size_of(how)); i++) {
        atomic_flag *lock = lock_of(&at.cells[i], at.shared);
        operate_cell(&at.cells[i], now, how, address, at.shared);
        unlock(lock);
    }
}

/* ---- a launch --------------------------------------------------------------------------------------- */

/* Cells of all ranges, which keep what earlier launches wrote there: it is known by its stages. */
static cell *arena;
static uint64_t arena_cells;

static bool reserve(uint64_t cells)
{
    if (cells <= arena_cells)
        return true;
    if (arena)
        munmap(arena, arena_cells * sizeof *arena);
    arena_cells = 0;
    void *made = mmap(NULL, cells * sizeof *arena, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = made == MAP_FAILED ? NULL : made;
    if (arena)
        arena_cells = cells;
    return arena != NULL;
}

static uint64_t cells_in(const haulage_check_range *of)
{
    return (of->high >> of->shift) - (of->low >> of->shift) + 2;
}

/* The first range that is the same memory as one. */
static uint32_t first_of(const haulage_check_range *ranges, uint32_t number)
{
    uint32_t i = 0;
    while (ranges[i].low != ranges[number].low || ranges[i].high != ranges[number].high)
        i++;
    return i;
}

int haulage_check_begin(const haulage_check_range *ranges, uint32_t count, uint64_t blocks,
                        uint32_t threads, uint32_t shared_shift, bool races, bool unwritten,
                        bool keeps, bool parallel)
{
    int begun = begin_order(blocks);
    if (begun < 0)
        return -1;
    if (begun && arena) {
        munmap(arena, arena_cells * sizeof *arena);
        arena = NULL;
        arena_cells = 0;
    }
    free(launch.ranges);
    free(launch.cells);
    launch.ranges = calloc(count + 1, sizeof *launch.ranges);
    launch.cells = calloc(count + 1, sizeof *launch.cells);
    if (!launch.ranges || !launch.cells)
        return -1;
    memcpy(launch.ranges, ranges, count * sizeof *ranges);
    uint64_t cells = 0;
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].races && first_of(ranges, i) == i)
            cells += cells_in(&ranges[i]);
    if (cells && !reserve(cells))
        return -1;
    cells = 0;
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].races && first_of(ranges, i) < i)
            launch.cells[i] = launch.cells[first_of(ranges, i)];
        else if (ranges[i].races) {
            launch.cells[i] = arena + cells;
            cells += cells_in(&ranges[i]);
        }
    launch.count = count;
    launch.threads = threads;
    launch.shared_shift = shared_shift;
    launch.races = races;
    launch.unwritten = unwritten;
    launch.keeps = keeps;
    launch.parallel = parallel;
    launch.number++;
    found_count = 0;
    memset(strays, 0, sizeof strays);
    atomic_store(&set_count, 0);
    launch.on = true;
    return 0;
}

/* ---- blocks that stand for others ---------------------------------------------------------------- */

static haulage_check_sample *samples;
static uint64_t sample_count;
static haulage_check_code plain_code, checked_code;

int haulage_check_sample_blocks(const haulage_check_sample *given, uint64_t count,
                                haulage_check_code plain, haulage_check_code checked)
{
    free(samples);
    sample_count = 0;
    samples = calloc(count + 1, sizeof *samples);
    if (!samples)
        return -1;
    memcpy(samples, given, count * sizeof *samples);
    sample_count = count;
    plain_code = plain;
    checked_code = checked;
    return 0;
}

int64_t haulage_check_entry(const void *given, uint64_t first, uint64_t last)
{
    int64_t worst = 0;
    uint64_t next = 0;
    while (next < sample_count && samples[next].plain < first)
        next++;
    while (first < last) {
        int64_t fault;
        if (next < sample_count && samples[next].plain == first) {
            fault = checked_code(given, samples[next].checked, samples[next].checked + 1);
            next++;
            first++;
        } else {
            uint64_t end = next < sample_count && samples[next].plain < last ? samples[next].plain : last;
            fault = plain_code(given, first, end);
            first = end;
        }
        worst = fault > worst ? fault : worst;
    }
    return worst;
}

uint32_t haulage_check_end(uint64_t *accesses)
{
    launch.on = false;
    *accesses = 0;
    for (block *it = atomic_load(&launch.blocks); it; it = it->next)
        *accesses += it->accesses;
    end_order();
    return found_count;
}

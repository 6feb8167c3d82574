/* Threads of blocks as fibers: each has a stack of its own and runs until it has to wait.
 *
 * So a barrier, or a word of a warp, may stand anywhere, also in a function that calls itself. What
 * waits for what is as the PTX ISA has it: threads that have exited are waited for by nobody; an
 * `.aligned` barrier must be the same instruction for all threads of a warp that come to it, and a
 * word by which lanes exchange something for all lanes of its mask. A block in which nobody can go on
 * is an error here, where hardware hangs.
 */

#include "ptx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { READY, RUNNING, AT_BARRIER, IN_WARP, ASKING_WHO, DONE };

#define BARRIERS 16
#define WARP 32
#define MOST_WARPS 32
#define SMALLEST_STACK 16 /* its logarithm */
#define STACK_SIZES 12
#define STACKS_AT_ONCE 32
/* Accesses that may be of a loop which waits for another thread, before the others have a turn. */
#define PATIENCE 32
/* Seconds in which threads did nothing but that. */
#define SPIN_SECONDS 10

typedef struct {
  uint32_t arrived, expected, waiting; /* expected 0: all that have not exited */
  uint32_t count, all, any;            /* of the predicates of those that came */
  uint32_t places[MOST_WARPS];         /* line + 1 of the aligned barrier, by warp */
} barrier;

typedef struct { uint64_t number, bytes; } written;

struct block {
  thread *threads;
  uint32_t count, done, warps;
  uint8_t *shared, *shared_room;
  barrier barriers[BARRIERS];
  run *run;
};

struct run {
  void *scheduler;
  entry_function *entry;
  int failed;
  int hard; /* whether somebody did more than ask again, since this was cleared */
  size_t stack_class;
  uint32_t workspace[2]; /* of the grid: its size, and the counter of its barrier */
  written *table; /* what was written, by places of 64 bytes; room for a power of two of them */
  size_t room, places;
};

/* ---- errors ------------------------------------------------------------------------------------ */

static char error_text[600];
static int error_taken;

static void note(const char *format, va_list values) {
  int nobody = 0;
  if (__atomic_compare_exchange_n(&error_taken, &nobody, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    vsnprintf(error_text, sizeof error_text, format, values);
    __atomic_store_n(&error_taken, 2, __ATOMIC_RELEASE);
  }
}

/* Takes the text of the first error since the last call; 0 if there was none. */
int ptx_take_error(char *into, size_t nbytes) {
  if (__atomic_load_n(&error_taken, __ATOMIC_ACQUIRE) != 2) return 0;
  snprintf(into, nbytes, "%s", error_text);
  __atomic_store_n(&error_taken, 0, __ATOMIC_RELEASE);
  return 1;
}

static void leave(thread *t);

static int is_own(thread *t, uint64_t address) {
  return address - (uintptr_t)t->stack_low < (uint64_t)(t->stack_high - t->stack_low);
}

_Noreturn void ptx_fail(thread *t, const char *format, ...) {
  char where[400];
  snprintf(where, sizeof where, "block (%u, %u, %u), thread (%u, %u, %u): %s", t->ctaid[0],
           t->ctaid[1], t->ctaid[2], t->tid[0], t->tid[1], t->tid[2], format);
  va_list values;
  va_start(values, format);
  note(where, values);
  va_end(values);
  t->block->run->failed = 1;
  t->state = DONE;
  leave(t);
  abort();
}

enum { ANY_SPACE, SHARED_SPACE, GLOBAL_SPACE };

_Noreturn void ptx_bad_access(thread *t, uint32_t line, uint32_t space, uint64_t address,
                              uint32_t nbytes) {
  unsigned long long at = address;
  if (address % nbytes)
    ptx_fail(t, "line %u: %u bytes at address %#llx, which is no multiple", line, nbytes, at);
  if (space == SHARED_SPACE)
    ptx_fail(t, "line %u: %u bytes at %#llx of shared memory, which has %u", line, nbytes, at,
             t->shared_bytes);
  if (space == ANY_SPACE)
    ptx_fail(t, "line %u: an atomic operation on a thread's own memory", line);
  const char *whose = is_own(t, address) ? "of a thread's own memory"
                      : address - (uintptr_t)t->shared < t->shared_bytes ? "of shared memory"
                                                                         : "of no memory";
  ptx_fail(t, "line %u: %u bytes at %#llx of global memory, an address %s", line, nbytes, at, whose);
}

_Noreturn void ptx_trap(thread *t, uint32_t line) { ptx_fail(t, "line %u: trap", line); }

/* ---- stacks, kept for the next launch by each thread of the system ---------------------------- */

typedef struct free_stack { struct free_stack *next; } free_stack;
static __thread free_stack *stacks[STACK_SIZES];

static uint8_t *take_stack(size_t class) {
  size_t bytes = (size_t)1 << (SMALLEST_STACK + class);
  if (!stacks[class]) {
    uint8_t *room = mmap(0, bytes * STACKS_AT_ONCE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) abort();
    for (int n = 0; n < STACKS_AT_ONCE; n++) {
      /* Its link is at its upper end, which is in use anyway. */
      free_stack *one = (free_stack *)(room + bytes * (n + 1) - sizeof(free_stack));
      one->next = stacks[class];
      stacks[class] = one;
    }
  }
  free_stack *taken = stacks[class];
  stacks[class] = taken->next;
  return (uint8_t *)(taken + 1) - bytes;
}

static void give_stack(uint8_t *low, size_t class) {
  size_t bytes = (size_t)1 << (SMALLEST_STACK + class);
  free_stack *one = (free_stack *)(low + bytes - sizeof(free_stack));
  one->next = stacks[class];
  stacks[class] = one;
}

/* ---- switching --------------------------------------------------------------------------------- */

static void finish(thread *t);

static void begin(thread *t) {
  t->block->run->entry(t);
  finish(t);
}

#if defined(__x86_64__) && !defined(PTX_UCONTEXT)

void ptx_switch(void **save, void *to);
void ptx_begin(void);
__asm__(".text\n"
        ".globl ptx_switch\n.type ptx_switch, @function\n"
        "ptx_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".globl ptx_begin\n.type ptx_begin, @function\n"
        "ptx_begin:\n  movq %r12, %rdi\n  callq *%r13\n  ud2\n");

static void prepare(thread *t) {
  void **top = (void **)(t->stack_high - sizeof(free_stack) - 8);
  top = (void **)((uintptr_t)top & ~(uintptr_t)15);
  *--top = (void *)ptx_begin; /* Where a function is called, the stack has a multiple of 16 bytes. */
  *--top = 0;             /* rbp */
  *--top = 0;             /* rbx */
  *--top = t;             /* r12 */
  *--top = (void *)begin; /* r13 */
  *--top = 0;
  *--top = 0;
  t->context = top;
}

static void resume(thread *t) { ptx_switch(&t->block->run->scheduler, t->context); }
static void leave(thread *t) { ptx_switch(&t->context, t->block->run->scheduler); }

#else

#include <ucontext.h>

static __thread thread *beginning;
static void begin_it(void) { begin(beginning); }

static void prepare(thread *t) {
  ucontext_t *context = malloc(sizeof *context);
  getcontext(context);
  context->uc_stack.ss_sp = t->stack_low;
  context->uc_stack.ss_size = t->stack_high - t->stack_low - 64;
  context->uc_link = 0;
  makecontext(context, begin_it, 0);
  t->context = context;
}

static void resume(thread *t) {
  ucontext_t here;
  t->block->run->scheduler = &here;
  beginning = t;
  swapcontext(&here, t->context);
  if (t->state == DONE) {
    free(t->context);
    t->context = 0;
  }
}
static void leave(thread *t) { swapcontext(t->context, t->block->run->scheduler); }

#endif

static void wait_here(thread *t) {
  leave(t);
  t->state = RUNNING;
}

/* ---- barriers of a block ----------------------------------------------------------------------- */

static void settle(block *b, barrier *each) {
  uint32_t wanted = each->expected ? each->expected : b->count - b->done;
  if (!each->arrived || each->arrived < wanted) return;
  uint32_t number = (uint32_t)(each - b->barriers);
  for (uint32_t n = 0; each->waiting && n < b->count; n++) {
    thread *t = &b->threads[n];
    if (t->state == AT_BARRIER && t->waits_at == number) {
      t->state = READY;
      t->count = each->count, t->all = each->all, t->any = each->any;
    }
  }
  memset(each, 0, sizeof *each);
  each->all = 1;
}

static barrier *arrive(thread *t, uint32_t number, uint32_t count, uint32_t aligned, uint32_t line) {
  if (number >= BARRIERS) ptx_fail(t, "line %u: barrier %u of %u", line, number, BARRIERS);
  barrier *each = &t->block->barriers[number];
  if (count % WARP) ptx_fail(t, "line %u: a barrier of %u threads, no whole warps", line, count);
  if (each->arrived && each->expected != count)
    ptx_fail(t, "line %u: barrier %u for %u threads, for others %u", line, number, count,
             each->expected);
  if (aligned) {
    uint32_t *place = &each->places[t->warpid];
    if (*place && *place != line + 1)
      ptx_fail(t, "line %u: an aligned barrier, where others of the warp are at that of line %u",
               line, *place - 1);
    *place = line + 1;
  }
  each->expected = count;
  each->arrived++;
  return each;
}

void ptx_barrier_arrive(thread *t, uint32_t number, uint32_t count, uint32_t aligned,
                        uint32_t line) {
  settle(t->block, arrive(t, number, count, aligned, line));
}

/* Which: 0 how many predicates hold, 1 whether all do, 2 whether any does. */
uint32_t ptx_barrier(thread *t, uint32_t number, uint32_t count, uint32_t aligned, uint32_t line,
                     uint32_t predicate, uint32_t which) {
  barrier *each = arrive(t, number, count, aligned, line);
  each->count += predicate, each->all &= predicate, each->any |= predicate;
  each->waiting++;
  t->waits_at = number, t->line = line;
  t->state = AT_BARRIER;
  settle(t->block, each);
  if (t->state == READY)
    t->state = RUNNING;
  else
    wait_here(t);
  return which == 0 ? t->count : which == 1 ? t->all : t->any;
}

/* ---- words of a warp --------------------------------------------------------------------------- */

enum { SYNC, SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX, VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT,
       MATCH_ANY, MATCH_ALL, REDUX, ELECT };
enum { REDUX_ADD, REDUX_MIN_U, REDUX_MAX_U, REDUX_MIN_S, REDUX_MAX_S, REDUX_AND, REDUX_OR,
       REDUX_XOR };

static thread *lane_of(thread *t, uint32_t lane) {
  uint32_t number = t->warpid * WARP + lane;
  return number < t->block->count ? &t->block->threads[number] : 0;
}

static void shuffle(thread *t, uint32_t members) {
  int32_t lane = (int32_t)t->laneid, by = t->word.b & 31, clamp = t->word.c & 31;
  int32_t segment = t->word.c >> 8 & 31;
  int32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment, from = lane;
  int inside = 0;
  switch (t->word.kind) {
  case SHFL_UP: from = lane - by; inside = from >= last; break;
  case SHFL_DOWN: from = lane + by; inside = from <= last; break;
  case SHFL_BFLY: from = lane ^ by; inside = from <= last; break;
  case SHFL_IDX: from = first | (by & ~segment); inside = from <= last; break;
  }
  if (!inside) from = lane;
  /* The value of a lane that does not take part is undefined. */
  t->word.result = members >> from & 1 ? lane_of(t, (uint32_t)from)->word.a : 0xDEADBEEFu;
  t->word.holds = (uint32_t)inside;
}

static void reduce(thread *t, uint32_t members) {
  int begun = 0;
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < WARP; lane++) {
    if (!(members >> lane & 1)) continue;
    uint32_t value = (uint32_t)lane_of(t, lane)->word.a;
    if (!begun) { result = value, begun = 1; continue; }
    switch (t->word.b) {
    case REDUX_ADD: result += value; break;
    case REDUX_MIN_U: result = value < result ? value : result; break;
    case REDUX_MAX_U: result = value > result ? value : result; break;
    case REDUX_MIN_S: result = (int32_t)value < (int32_t)result ? value : result; break;
    case REDUX_MAX_S: result = (int32_t)value > (int32_t)result ? value : result; break;
    case REDUX_AND: result &= value; break;
    case REDUX_OR: result |= value; break;
    case REDUX_XOR: result ^= value; break;
    }
  }
  t->word.result = result;
}

static void answer(thread *t, uint32_t members) {
  uint32_t kind = t->word.kind, equal = 0, set = 0;
  for (uint32_t lane = 0; lane < WARP; lane++) {
    if (!(members >> lane & 1)) continue;
    uint64_t value = lane_of(t, lane)->word.a;
    equal |= (uint32_t)(value == t->word.a) << lane;
    set |= (uint32_t)(value != 0) << lane;
  }
  switch (kind) {
  case SYNC: break;
  case VOTE_ALL: t->word.result = set == members; break;
  case VOTE_ANY: t->word.result = set != 0; break;
  case VOTE_UNI: t->word.result = set == members || !set; break;
  case VOTE_BALLOT: t->word.result = set; break;
  case MATCH_ANY: t->word.result = equal; break;
  case MATCH_ALL:
    t->word.holds = equal == members;
    t->word.result = equal == members ? members : 0;
    break;
  case REDUX: reduce(t, members); break;
  case ELECT:
    t->word.result = (uint32_t)__builtin_ctz(members);
    t->word.holds = t->laneid == t->word.result;
    break;
  default: shuffle(t, members);
  }
}

/* Lets the lanes of the word of `t` go on if all are there that have not exited. */
static void meet(thread *t) {
  uint32_t members = 0;
  for (uint32_t lane = 0; lane < WARP; lane++) {
    thread *other = lane_of(t, lane);
    if (!(t->word.mask >> lane & 1) || !other || other->state == DONE) continue;
    if (other->state != IN_WARP || other->word.kind != t->word.kind ||
        other->word.mask != t->word.mask || (t->word.kind == REDUX && other->word.b != t->word.b))
      return;
    if (t->word.kind != SYNC && other->line != t->line)
      ptx_fail(t, "line %u: a word of a warp, where lane %u of its mask is at that of line %u",
               t->line, lane, other->line);
    members |= 1u << lane;
  }
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (members >> lane & 1) answer(lane_of(t, lane), members);
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (members >> lane & 1) lane_of(t, lane)->state = READY;
}

uint32_t ptx_warp(thread *t, uint32_t kind, uint64_t a, uint32_t b, uint32_t c, uint32_t mask,
                  uint32_t line, uint32_t *holds) {
  if (!(mask >> t->laneid & 1))
    ptx_fail(t, "line %u: lane %u is not in the mask %#x that it gives", line, t->laneid, mask);
  t->word = (word){.kind = kind, .a = a, .b = b, .c = c, .mask = mask};
  t->line = line;
  t->state = IN_WARP;
  meet(t);
  if (t->state == READY)
    t->state = RUNNING;
  else
    wait_here(t);
  *holds = t->word.holds;
  return t->word.result;
}

/* The lanes that come to this place, as far as nothing but time keeps them apart. Those that have
 * come farther wait for those behind them, as lanes do that have left a loop. */
uint32_t ptx_activemask(thread *t, uint32_t line) {
  t->line = line;
  t->state = ASKING_WHO;
  wait_here(t);
  return t->word.result;
}

static int tell_who(block *b) {
  thread *t = 0;
  for (uint32_t n = 0; n < b->count; n++) {
    thread *each = &b->threads[n];
    if (each->state == ASKING_WHO && (!t || each->line < t->line)) t = each;
  }
  if (!t) return 0;
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane < WARP; lane++) {
    thread *other = lane_of(t, lane);
    if (other && other->state == ASKING_WHO && other->line == t->line) mask |= 1u << lane;
  }
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (mask >> lane & 1) {
      lane_of(t, lane)->word.result = mask;
      lane_of(t, lane)->state = READY;
    }
  return 1;
}

/* ---- memory that is to stay as it is ----------------------------------------------------------- */

static written *place_of(run *r, uint64_t number) {
  size_t at = (number * 0x9E3779B97F4A7C15u) >> 20 & (r->room - 1);
  while (r->table[at].bytes && r->table[at].number != number) at = (at + 1) & (r->room - 1);
  return &r->table[at];
}

static void grow(run *r) {
  written *before = r->table;
  size_t room = r->room;
  r->room = room ? 2 * room : 1024;
  r->table = calloc(r->room, sizeof *r->table);
  for (size_t n = 0; n < room; n++)
    if (before[n].bytes) *place_of(r, before[n].number) = before[n];
  free(before);
}

static uint64_t bits_of(uint64_t address, uint32_t nbytes) {
  return (nbytes < 64 ? ((uint64_t)1 << nbytes) - 1 : ~(uint64_t)0) << (address % 64);
}

/* An access of a power of two of bytes, at a multiple of that. */
void ptx_wrote(thread *t, void *at, uint32_t nbytes) {
  run *r = t->block->run;
  uint64_t address = (uintptr_t)at;
  if (!nbytes) return;
  if (2 * r->places >= r->room) grow(r);
  written *place = place_of(r, address / 64);
  r->places += !place->bytes;
  place->number = address / 64;
  place->bytes |= bits_of(address, nbytes);
}

/* What is loaded as memory that stays as it is may come from a cache that hears of no stores. */
void ptx_stays(thread *t, void *at, uint32_t nbytes, uint32_t line) {
  run *r = t->block->run;
  uint64_t address = (uintptr_t)at;
  if (r->room && place_of(r, address / 64)->bytes & bits_of(address, nbytes))
    ptx_fail(t, "line %u: a load of memory that stays as it is, %u bytes at %#llx, which this launch "
             "has written", line, nbytes, (unsigned long long)address);
}

/* ---- turns ------------------------------------------------------------------------------------- */

/* Called with each access that may be of a loop which waits for another thread. */
void ptx_patience(thread *t) {
  if (++t->accesses % PATIENCE) return;
  t->state = READY;
  t->asks_again = 1;
  leave(t);
  t->state = RUNNING;
}

void ptx_pause(thread *t) {
  t->accesses = PATIENCE - 1;
  ptx_patience(t);
}

static void finish(thread *t) {
  block *b = t->block;
  t->state = DONE;
  b->done++;
  for (uint32_t n = 0; n < BARRIERS; n++)
    if (b->barriers[n].arrived && !b->barriers[n].expected) settle(b, &b->barriers[n]);
  for (uint32_t lane = 0; lane < WARP; lane++) {
    thread *other = lane_of(t, lane);
    if (other && other->state == IN_WARP) meet(other);
  }
  leave(t);
}

_Noreturn void ptx_exit(thread *t) {
  finish(t);
  abort();
}

static void report_deadlock(run *r, block *blocks, size_t count) {
  for (size_t each = 0; each < count; each++)
    for (uint32_t n = 0; n < blocks[each].count; n++) {
      thread *t = &blocks[each].threads[n];
      if (t->state == AT_BARRIER) {
        barrier *at = &blocks[each].barriers[t->waits_at];
        ptx_note("line %u: nobody can go on: block (%u, %u, %u), thread (%u, %u, %u) waits at "
                 "barrier %u, where %u threads are and %u have exited",
                 t->line, t->ctaid[0], t->ctaid[1], t->ctaid[2], t->tid[0], t->tid[1], t->tid[2],
                 t->waits_at, at->arrived, blocks[each].done);
        return;
      }
      if (t->state == IN_WARP) {
        ptx_note("line %u: nobody can go on: block (%u, %u, %u), thread (%u, %u, %u) waits for "
                 "the lanes %#x of its warp",
                 t->line, t->ctaid[0], t->ctaid[1], t->ctaid[2], t->tid[0], t->tid[1], t->tid[2],
                 t->word.mask);
        return;
      }
    }
  (void)r;
}

void ptx_note(const char *format, ...) {
  va_list values;
  va_start(values, format);
  note(format, values);
  va_end(values);
}

/* Runs blocks that are there at one time to their end: in each round every thread that can go on,
 * from the first to the last, or the other way round with HAULAGE_PTX_ORDER=down. */
static void run_all(run *r, block *blocks, size_t count) {
  const char *order = getenv("HAULAGE_PTX_ORDER");
  int down = order && !strcmp(order, "down");
  time_t since = time(0);
  uint64_t rounds = 0;
  for (;;) {
    size_t left = 0;
    int went = 0, hard = 0;
    for (size_t each = 0; each < count; each++) {
      block *b = &blocks[down ? count - 1 - each : each];
      if (b->done == b->count) continue;
      left++;
      for (uint32_t n = 0; n < b->count; n++) {
        thread *t = &b->threads[down ? b->count - 1 - n : n];
        if (t->state != READY) continue;
        went = 1;
        if (!t->stack_low) {
          t->stack_low = take_stack(r->stack_class);
          t->stack_high = t->stack_low + ((size_t)1 << (SMALLEST_STACK + r->stack_class));
          prepare(t);
        }
        t->state = RUNNING;
        t->asks_again = 0;
        resume(t);
        if (r->failed) return;
        hard |= !t->asks_again;
        if (t->state == DONE) {
          give_stack(t->stack_low, r->stack_class);
          t->stack_low = 0;
        }
      }
    }
    if (!left) return;
    if (hard) {
      rounds = 0;
      continue;
    }
    int told = 0;
    for (size_t each = 0; each < count && !told; each++) told = tell_who(&blocks[each]);
    if (told) continue;
    if (!went) {
      report_deadlock(r, blocks, count);
      r->failed = 1;
      return;
    }
    if (rounds == 0) since = time(0);
    if ((++rounds & 1023) == 0) {
      struct timespec moment = {0, 100000};
      nanosleep(&moment, 0); /* The host, or another block, may be what is waited for. */
      if (time(0) - since > SPIN_SECONDS) {
        ptx_note("threads have asked for the same again and again for %d seconds", SPIN_SECONDS);
        r->failed = 1;
        return;
      }
    }
  }
}

static void open_block(block *b, run *r, const launch *given, uint64_t number, uint32_t fixed,
                       thread *threads) {
  const uint32_t *grid = given->grid, *size = given->block;
  uint32_t total = fixed + given->dynamic;
  memset(b, 0, sizeof *b);
  b->run = r;
  b->threads = threads;
  b->count = size[0] * size[1] * size[2];
  b->warps = (b->count + WARP - 1) / WARP;
  b->shared_room = malloc(total + 512);
  b->shared = (uint8_t *)(((uintptr_t)b->shared_room + 255) & ~(uintptr_t)255);
  memset(b->shared, 0xA5, total); /* It is not initialised. */
  for (int n = 0; n < BARRIERS; n++) b->barriers[n].all = 1;
  memset(threads, 0, sizeof *threads * b->count);
  for (uint32_t n = 0; n < b->count; n++) {
    thread *t = &threads[n];
    t->tid[0] = n % size[0];
    t->tid[1] = n / size[0] % size[1];
    t->tid[2] = n / size[0] / size[1];
    memcpy(t->ntid, size, 12);
    memcpy(t->nctaid, grid, 12);
    t->ctaid[0] = (uint32_t)(number % grid[0]);
    t->ctaid[1] = (uint32_t)(number / grid[0] % grid[1]);
    t->ctaid[2] = (uint32_t)(number / grid[0] / grid[1]);
    t->laneid = n % WARP, t->warpid = n / WARP, t->nwarpid = b->warps;
    t->shared = b->shared;
    t->shared_bytes = total, t->dynamic_bytes = given->dynamic;
    t->params = given->params;
    if (r->workspace[0]) {
      uint64_t at = (uintptr_t)r->workspace;
      t->envreg1 = (uint32_t)(at >> 32), t->envreg2 = (uint32_t)at;
    }
    t->block = b;
    t->state = READY;
  }
}

static void close_block(block *b, size_t stack_class) {
  for (uint32_t n = 0; n < b->count; n++)
    if (b->threads[n].stack_low) give_stack(b->threads[n].stack_low, stack_class);
  free(b->shared_room);
}

static size_t class_of(uint64_t stack_bytes) {
  size_t class = 0;
  while (((uint64_t)1 << (SMALLEST_STACK + class)) < stack_bytes) class++;
  if (class >= STACK_SIZES) abort();
  return class;
}

/* Runs blocks [first, last) of a launch, `together` if they wait for one another; 0, or PTX_FAILED
 * with a text for `ptx_take_error`. `fixed` are the bytes of shared memory that the code has,
 * `stack` those that a thread needs on its stack. */
int64_t ptx_run(entry_function *entry, uint32_t fixed, uint64_t stack, const launch *given,
                uint64_t first, uint64_t last, uint32_t together) {
  uint64_t size = (uint64_t)given->block[0] * given->block[1] * given->block[2];
  uint64_t at_once = together ? last - first : 1;
  run r = {.entry = entry, .stack_class = class_of(stack)};
  /* The driver gives one to each cooperative launch; its barrier's counter begins anywhere. */
  if (together) r.workspace[0] = sizeof r.workspace, r.workspace[1] = 0x80000000u;
  thread *threads = aligned_alloc(64, sizeof(thread) * size * at_once);
  block *blocks = malloc(sizeof(block) * at_once);
  for (uint64_t number = first; number < last && !r.failed; number += at_once) {
    for (uint64_t n = 0; n < at_once; n++)
      open_block(&blocks[n], &r, given, number + n, fixed, threads + size * n);
    run_all(&r, blocks, at_once);
    for (uint64_t n = 0; n < at_once; n++) close_block(&blocks[n], r.stack_class);
  }
  free(blocks);
  free(threads);
  free(r.table);
  return r.failed ? PTX_FAILED : 0;
}

uint64_t ptx_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What catches a kernel's accesses outside of memory.

   A thread that runs a kernel keeps a record of it. SIGSEGV and SIGBUS run `on_fault` on a stack of
   their own. If the thread is inside a kernel, it jumps to the end of the batch of blocks that it
   was running; otherwise the handler that was there before has its turn, as if there were no other.

   It cannot jump out of the C library's allocator, whose locks would stay locked. So kernels
   allocate by `haulage_alloc`, which notes that in the record. What a batch owns is freed if that
   crashes. The lock of messages is noted so too. Nothing else that kernels call holds a lock. */

#if defined(__linux__)
#define _GNU_SOURCE /* pthread_getattr_np */
#endif
/* The check of `longjmp` is one of frames, and the handler has a stack of its own. */
#undef _FORTIFY_SOURCE

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool_internal.h"

static void *aligned(uint64_t align, uint64_t nbytes)
{
    return aligned_alloc(align, (nbytes + align - 1) / align * align);
}

#if defined(__linux__)

#include <sys/mman.h>
#include <unistd.h>

#include "pool_record.h"

const bool haulage_has_guard = true;

/* The stack of the handlers, and the record behind it. */
typedef struct {
    char stack[127 << 10];
    record kept;
} room;

static atomic_bool guarding;
static pthread_key_t key;

/* ---- a thread's record ------------------------------------------------------------------------ */

record *here(void)
{
    if (!atomic_load_explicit(&guarding, memory_order_acquire)) return NULL;
    return pthread_getspecific(key);
}

static void note_stack(record *it)
{
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes)) return;
    pthread_attr_getstack(&attributes, &it->low, &it->nbytes);
    pthread_attr_destroy(&attributes);
}

static void let_signals_in(void)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGSEGV);
    sigaddset(&ours, SIGBUS);
    sigaddset(&ours, URGENT);
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

/* With an alternate stack, if the thread has none. */
static record *make_record(void)
{
    room *its = mmap(NULL, sizeof *its, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (its == MAP_FAILED) return NULL;
    record *made = &its->kept;
    stack_t stack;
    sigaltstack(NULL, &stack);
    if (stack.ss_flags & SS_DISABLE) {
        stack = (stack_t){.ss_sp = its->stack, .ss_size = sizeof its->stack};
        sigaltstack(&stack, NULL);
    }
    atomic_init(&made->to_stop, NO_CALL);
    note_stack(made);
    let_signals_in();
    pthread_setspecific(key, made);
    list_record(made);
    return made;
}

record *here_or_made(void)
{
    record *found = here();
    if (found || !atomic_load_explicit(&guarding, memory_order_acquire)) return found;
    return make_record();
}

/* When a thread ends. */
static void end_record(void *kept)
{
    unlist_record(kept);
    room *its = (room *)((char *)kept - offsetof(room, kept));
    stack_t stack;
    sigaltstack(NULL, &stack);
    if (stack.ss_sp == its->stack) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    munmap(its, sizeof *its);
}

/* ---- running blocks --------------------------------------------------------------------------- */

/* How many crashes are remembered. */
enum { CRASHES = 64 };

static haulage_crash_report crashes[CRASHES];
static _Atomic int64_t crash_count;

static int64_t remember_crash(const record *it)
{
    int64_t serial = atomic_fetch_add(&crash_count, 1);
    haulage_crash_report *report = &crashes[serial % CRASHES];
    *report = (haulage_crash_report){
        .number = HAULAGE_CRASH + serial,
        .entry = it->runs.entry,
        .signal = it->signal,
        .address = it->address,
        .first = it->runs.first,
        .last = it->runs.last,
        .low = (uintptr_t)it->low,
        .nbytes = it->nbytes,
    };
    memcpy(report->grid, it->runs.launch, 3 * sizeof report->grid[0]);
    return report->number;
}

bool haulage_crash(int64_t number, haulage_crash_report *report)
{
    *report = crashes[(number - HAULAGE_CRASH) % CRASHES];
    return report->number == number;
}

static __attribute__((noinline)) int64_t after_leaving(record *it, int why)
{
    while (it->runs.owned) free(it->runs.pieces[--it->runs.owned]);
    return why == STOPPED ? HAULAGE_STOPPED : remember_crash(it);
}

static __attribute__((noinline)) int64_t run_batch(record *it, haulage_entry entry,
                                                   const void *launch, uint64_t first,
                                                   uint64_t last)
{
    jmp_buf landing;
    int why = _setjmp(landing);
    if (why) return after_leaving(it, why);
    it->runs.entry = entry;
    it->runs.launch = launch;
    it->runs.first = first;
    it->runs.last = last;
    it->runs.owned = 0;
    atomic_store_explicit(&it->landing, &landing, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    /* A signal that came before had nothing to leave. */
    int64_t fault = is_to_stop(it) ? HAULAGE_STOPPED : entry(launch, first, last);
    atomic_store_explicit(&it->landing, NULL, memory_order_release);
    return fault;
}

int64_t guarded(haulage_entry entry, const void *launch, uint64_t first, uint64_t last)
{
    record *it = here_or_made();
    return it ? run_batch(it, entry, launch, first, last) : entry(launch, first, last);
}

void leave_batch(record *it, int why)
{
    jmp_buf *landing = atomic_load(&it->landing);
    atomic_store(&it->landing, NULL);
    longjmp(*landing, why);
}

/* ---- memory of kernels ------------------------------------------------------------------------ */

/* Signals of this thread see what it does in this order. */
static void set_busy(record *it)
{
    atomic_store_explicit(&it->busy, BUSY, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* Whether it was asked to leave meanwhile. */
static bool set_free(record *it)
{
    atomic_signal_fence(memory_order_seq_cst);
    return atomic_exchange_explicit(&it->busy, FREE, memory_order_relaxed) == ASKED;
}

static void no_more_busy(record *it)
{
    if (set_free(it)) pthread_kill(pthread_self(), URGENT);
}

void haulage_busy(int64_t on)
{
    record *it = here();
    if (!it) return;
    if (on)
        set_busy(it);
    else
        no_more_busy(it);
}

void *haulage_alloc(uint64_t align, uint64_t nbytes, bool owned)
{
    record *it = here();
    if (!it) return aligned(align, nbytes);
    set_busy(it);
    void *piece = aligned(align, nbytes);
    if (owned && it->runs.owned < OWNED) it->runs.pieces[it->runs.owned++] = piece;
    no_more_busy(it);
    return piece;
}

void haulage_free(void *piece)
{
    record *it = here();
    if (!it) {
        free(piece);
        return;
    }
    set_busy(it);
    batch *runs = &it->runs;
    for (uint64_t i = runs->owned; i-- > 0;)
        if (runs->pieces[i] == piece) {
            runs->pieces[i] = runs->pieces[--runs->owned];
            break;
        }
    free(piece);
    no_more_busy(it);
}

/* ---- names ------------------------------------------------------------------------------------ */

typedef struct name {
    struct name *next;
    haulage_entry entry;
    uint64_t nbytes;
    char text[];
} name;

static _Atomic(name *) names; /* a list that only grows, as the handler reads it */

bool haulage_name(haulage_entry entry, const char *text, uint64_t nbytes)
{
    name *it = malloc(sizeof *it + nbytes);
    if (!it) return false;
    it->entry = entry;
    it->nbytes = nbytes;
    memcpy(it->text, text, nbytes);
    it->next = atomic_load(&names);
    while (!atomic_compare_exchange_weak(&names, &it->next, it)) {
    }
    return true;
}

static void say(const char *text, uint64_t nbytes)
{
    /* The process ends, whether this is heard or not. */
    ssize_t written = write(STDERR_FILENO, text, nbytes);
    (void)written;
}

/* Says on the error output which kernel ends the process. */
static void tell(haulage_entry entry)
{
    static const char begin[] = "haulage: kernel ";
    static const char end[] =
        ": a thread accessed memory that is not there; the process cannot go on, as the C "
        "library's allocator was at work. Run it with jit(debug=True) to find the index\n";
    say(begin, sizeof begin - 1);
    const name *it = atomic_load(&names);
    while (it && it->entry != entry) it = it->next;
    if (it) say(it->text, it->nbytes);
    say(end, sizeof end - 1);
}

/* ---- the handler ------------------------------------------------------------------------------ */

enum { SEGV, BUS, HANDLED };
static const int handled[HANDLED] = {[SEGV] = SIGSEGV, [BUS] = SIGBUS};

/* Handlers that were there before this one, and those found later. */
static struct sigaction before[HANDLED], later[HANDLED];

/* What the process does with a signal for which nobody has a handler. */
static void by_default(int signal, bool ignored, bool by_system)
{
    /* What the system made is not ignored. */
    if (ignored && !by_system) return;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL);
    /* If the system made it, the access is made anew, and fails anew. */
    if (!by_system) raise(signal);
}

/* What the process does with the signal without this code. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    int number = signal == SIGSEGV ? SEGV : BUS;
    bool by_system = info->si_code > 0, was_later = later[number].sa_handler != SIG_DFL;
    struct sigaction *action = was_later ? &later[number] : &before[number];
    struct sigaction found = *action;
    /* Once only: faulthandler's puts back the one before it, which is this, and raises again. */
    later[number].sa_handler = SIG_DFL;
    if (found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN) {
        by_default(signal, found.sa_handler == SIG_IGN, by_system);
        return;
    }
    /* The mask is put back when this handler returns. */
    if (!(found.sa_flags & SA_NODEFER)) sigaddset(&found.sa_mask, signal);
    pthread_sigmask(SIG_BLOCK, &found.sa_mask, NULL);
    if (found.sa_flags & (int)SA_RESETHAND) action->sa_handler = SIG_DFL;
    found.sa_sigaction(signal, info, context);
    /* What was sent, and not taken, would not come again. */
    if (was_later && !by_system) pass_on(signal, info, context);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    record *it = here();
    bool by_system = info->si_code > 0;
    /* A handler in front of this one raises it again. */
    bool by_us = info->si_code == SI_TKILL && info->si_pid == getpid();
    if (it && atomic_load(&it->landing) && (by_system || by_us)) {
        if (atomic_load(&it->busy) == FREE) {
            bool is_told = by_system && info->si_code != SI_KERNEL;
            it->address = is_told ? (uintptr_t)info->si_addr : HAULAGE_UNKNOWN;
            it->signal = signal;
            leave_batch(it, CRASHED);
        }
        atomic_store(&it->landing, NULL);
        tell(it->runs.entry);
    }
    pass_on(signal, info, context);
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_fault;
}

/* False if the system refuses. `again`: it is not the first time. */
static bool install(int number, bool again, bool in_front)
{
    struct sigaction found;
    if (sigaction(handled[number], NULL, &found)) return false;
    if (is_ours(&found)) return true;
    if (found.sa_handler == SIG_DFL || !again) {
        before[number] = found;
        later[number].sa_handler = SIG_DFL;
    } else if (in_front) {
        later[number] = found;
    } else {
        return true; /* one that nobody knows stays in front */
    }
    struct sigaction ours = {.sa_sigaction = on_fault,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    return sigaction(handled[number], &ours, NULL) == 0;
}

int haulage_guard(bool in_front)
{
    bool again = atomic_load(&guarding);
    if (!again && pthread_key_create(&key, end_record)) return 1;
    for (int number = 0; number < HANDLED; number++)
        if (!install(number, again, in_front)) return 1;
    atomic_store(&guarding, true);
    return 0;
}

#else /* nothing is caught */

const bool haulage_has_guard = false;

record *here(void) { return NULL; }

record *here_or_made(void) { return NULL; }

int64_t guarded(haulage_entry entry, const void *launch, uint64_t first, uint64_t last)
{
    return entry(launch, first, last);
}

bool haulage_crash(int64_t number, haulage_crash_report *report)
{
    (void)number;
    (void)report;
    return false;
}

bool haulage_name(haulage_entry entry, const char *text, uint64_t nbytes)
{
    (void)entry;
    (void)text;
    (void)nbytes;
    return true;
}

int haulage_guard(bool in_front)
{
    (void)in_front;
    return 1;
}

void *haulage_alloc(uint64_t align, uint64_t nbytes, bool owned)
{
    (void)owned;
    return aligned(align, nbytes);
}

void haulage_free(void *piece) { free(piece); }

void haulage_busy(int64_t on) { (void)on; }

#endif

/* What running kernels tell the host: two buffers that worker threads write and Python reads.

   A message is a number, a count, and so many cells of 8 bytes. Those with negative numbers go to a
   buffer of their own, so that no flood of the others can crowd them out. */

#include <stdatomic.h>
#include <string.h>

#include "pool_native.h"

typedef struct {
    atomic_bool locked;
    uint32_t dropped;
    uint64_t used;
    char room[HAULAGE_MESSAGE_BYTES];
} buffer;

static buffer buffers[2]; /* of numbers from 0 on, of negative ones */

enum { HEADER = 8, CELL = 8 };

/* More than this code uses of a stack. */
enum { STACK = 4000 };

static void lock(buffer *it)
{
    while (atomic_exchange_explicit(&it->locked, true, memory_order_acquire)) {
    }
}

static void unlock(buffer *it)
{
    atomic_store_explicit(&it->locked, false, memory_order_release);
}

/* A stack that ends does so before the lock is taken, which nobody would release. */
static __attribute__((noinline)) void reach_down(void)
{
    volatile char room[STACK];
    room[0] = 0;
    (void)room[0];
}

void haulage_message(int32_t number, const void *cells, uint32_t count)
{
    buffer *it = &buffers[number < 0];
    uint64_t nbytes = (uint64_t)count * CELL;
    reach_down();
    haulage_busy(1);
    lock(it);
    if (it->used + HEADER + nbytes <= sizeof it->room) {
        char *at = it->room + it->used;
        memcpy(at, &number, sizeof number);
        memcpy(at + sizeof number, &count, sizeof count);
        memcpy(at + HEADER, cells, nbytes);
        it->used += HEADER + nbytes;
    } else {
        it->dropped++;
    }
    unlock(it);
    haulage_busy(0);
}

uint64_t haulage_take_messages(bool negative, void *into, uint32_t *dropped)
{
    buffer *it = &buffers[negative];
    lock(it);
    uint64_t used = it->used;
    memcpy(into, it->room, used);
    it->used = 0;
    *dropped = it->dropped;
    it->dropped = 0;
    unlock(it);
    return used;
}

void haulage_renew_messages(void)
{
    for (int i = 0; i < 2; i++) {
        buffers[i].used = 0;
        buffers[i].dropped = 0;
        unlock(&buffers[i]);
    }
}

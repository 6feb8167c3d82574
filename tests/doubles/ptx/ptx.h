/* What translated code and the functions that it calls share; `layout.py` has the places. */

#include <stddef.h>
#include <stdint.h>

#define PTX_FAILED (1 << 28)

typedef struct thread thread;
typedef struct block block;
typedef struct run run;
typedef void entry_function(thread *);

/* As the CPU device starts code: its header, and the packed arguments behind it. */
typedef struct {
  uint32_t grid[3], block[3], dynamic, unused;
  uint8_t params[];
} launch;

typedef struct {
  uint32_t kind, b, c, mask;
  uint64_t a;
  uint32_t result, holds;
} word;

struct thread {
  /* Read by translated code. */
  uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];    /* 0, 12, 24, 36 */
  uint32_t laneid, warpid, nwarpid, unused;         /* 48, 52, 56 */
  uint8_t *shared;                                  /* 64 */
  uint32_t shared_bytes, dynamic_bytes;             /* 72, 76 */
  const uint8_t *params;                            /* 80 */
  uint8_t *stack_low, *stack_high;                  /* 88, 96 */
  uint32_t envreg1, envreg2;                        /* 104, 108 */
  /* The scheduler's own. */
  block *block;
  void *context;
  int state, asks_again;
  uint32_t waits_at, line, accesses;
  uint32_t count, all, any;
  word word;
};

_Noreturn void ptx_fail(thread *t, const char *format, ...);
void ptx_note(const char *format, ...);

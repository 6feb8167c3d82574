/* The functions that CUDA's driver links to every program. They are called as translated code calls:
 * with the thread, and pointers to the result and to each argument. */

#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_malloc(thread *t, void **result, const uint64_t *nbytes) {
  (void)t;
  *result = malloc(*nbytes);
}

void ptx_free(thread *t, void *const *address) {
  (void)t;
  free(*address);
}

void ptx_assertfail(thread *t, const char *const *message, const char *const *file,
                    const uint32_t *line, const char *const *function, const uint64_t *char_size) {
  (void)char_size;
  ptx_fail(t, "assertion %s failed in %s, %s:%u", *message, *function, *file, *line);
}

/* The arguments lie one behind the other, each at a multiple of its size; floats are float64. */
void ptx_vprintf(thread *t, int32_t *result, const char *const *format, uint8_t *const *arguments) {
  (void)t;
  const uint8_t *next = *arguments;
  int32_t count = 0;
  for (const char *at = *format; *at;) {
    if (*at != '%' || at[1] == '%') {
      putchar(*at);
      at += *at == '%' ? 2 : 1;
      continue;
    }
    size_t length = strcspn(at + 1, "diouxXeEfFgGaAcsp") + 2;
    char one[32] = {0};
    if (length >= sizeof one) break;
    memcpy(one, at, length);
    char kind = one[length - 1];
    int wide = strchr("eEfFgGaAsp", kind) || strchr(one, 'l') || strchr(one, 'z');
    uint64_t bits = 0;
    if (wide) {
      next = (const uint8_t *)(((uintptr_t)next + 7) & ~(uintptr_t)7);
      memcpy(&bits, next, 8), next += 8;
    } else {
      memcpy(&bits, next, 4), next += 4;
    }
    if (strchr("eEfFgGaA", kind)) {
      double value;
      memcpy(&value, &bits, 8);
      printf(one, value);
    } else if (wide) {
      printf(one, bits);
    } else {
      printf(one, (uint32_t)bits);
    }
    count++;
    at += length;
  }
  fflush(stdout);
  *result = count;
}

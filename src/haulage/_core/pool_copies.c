/* Copies that the worker threads share out.

   To write to the caches, a processor first reads what it overwrites: a third of what passes between
   it and the memory. Large copies fill the caches with what nobody finds there any more, besides. */

#include <string.h>

#include "pool_native.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

typedef struct {
    char *to;
    const char *from;
    uint64_t nbytes;
} part;

enum { PART_AT = 32 };

/* What the blocks [first, last) copy. */
static part part_of(const void *launch, uint64_t first, uint64_t last)
{
    part all;
    memcpy(&all, (const char *)launch + PART_AT, sizeof all);
    uint64_t begin = first * HAULAGE_COPY_BYTES, end = last * HAULAGE_COPY_BYTES;
    if (end > all.nbytes) end = all.nbytes;
    return (part){all.to + begin, all.from + begin, end - begin};
}

int64_t haulage_copy(const void *launch, uint64_t first, uint64_t last)
{
    part it = part_of(launch, first, last);
    memcpy(it.to, it.from, it.nbytes);
    return 0;
}

#if defined(__x86_64__)

enum { LINE_BYTES = 64 };

/* A line is written as a whole. */
static inline void copy_line(char *to, const char *from)
{
    const __m128i *source = (const __m128i *)from;
    __m128i *line = (__m128i *)to;
    __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
}

int64_t haulage_copy_past_caches(const void *launch, uint64_t first, uint64_t last)
{
    part it = part_of(launch, first, last);
    uint64_t head = -(uintptr_t)it.to % LINE_BYTES;
    if (head > it.nbytes) head = it.nbytes;
    uint64_t tail = (it.nbytes - head) % LINE_BYTES, end = it.nbytes - tail;
    memcpy(it.to, it.from, head);
    for (uint64_t at = head; at < end; at += LINE_BYTES) copy_line(it.to + at, it.from + at);
    memcpy(it.to + end, it.from + end, tail);
    /* Such writes are in no order with others before it, nor with those that tell of the end. */
    _mm_sfence();
    return 0;
}

#else

int64_t haulage_copy_past_caches(const void *launch, uint64_t first, uint64_t last)
{
    return haulage_copy(launch, first, last);
}

#endif

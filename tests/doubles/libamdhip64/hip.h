/* A stand-in for libamdhip64.so, for tests of what calls the real one.
 *
 * Functions have the names and signatures of HIP's, and do what they do by those of the stand-in for
 * CUDA's driver, which is built into this library under names that nobody else sees: statuses have
 * the same numbers. Here is what is different, and what is watched: which handles there are, what
 * was called in which order, and whether the last error was taken away. HIP_MAJOR says which ROCm it
 * is: 5 has fewer functions, and other layouts. */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int hipError_t;

enum { NOT_SUPPORTED = 801 };

extern _Thread_local int hip_device, last_error;

/* What is alive, by kind; handles that are not there are refused, and counted as misused. */
enum held { STREAM, EVENT, MODULE, GRAPH, EXECUTABLE, MEMORY, HOST_MEMORY, REGISTRATION, RANGE, CHUNK,
            OPENED, HELD_KINDS };
void born(enum held kind, uint64_t handle);
int gone(enum held kind, uint64_t handle);    /* whether it was there */
int alive(enum held kind, uint64_t handle);
void misused(const char *what);
void wrote(const char *name, uint64_t first, uint64_t second);

/* The context of the thread's device becomes current, and what happens to all calls does. */
hipError_t begin(const char *name, int needs_device);
hipError_t done(hipError_t status);

#define BEGIN(needs) do { hipError_t met_ = begin(__func__, needs); if (met_) return done(met_); } while (0)
/* Of streams: 0 and 2 are there without having been made. */
#define STREAM_IS(handle) do { if ((handle) > 2 && !alive(STREAM, handle)) { \
    misused(__func__); return done(INVALID_HANDLE); } } while (0)
#define IS(kind, handle) do { if (!alive(kind, handle)) { \
    misused(__func__); return done(INVALID_HANDLE); } } while (0)

/* A stand-in for libcuda.so.1 on host memory, for tests of what calls the real one.
 *
 * Functions have the names and the newest signatures of CUDA's driver and are found by
 * cuGetProcAddress, as the real ones are. Streams are threads; device memory lies in a range of
 * addresses of its own, and copies outside of what is allocated there are errors.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifndef EXPORT
#define EXPORT __attribute__((visibility("default")))
#endif

typedef int CUresult;
typedef uint64_t CUdeviceptr;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, ALREADY_MAPPED = 208,
    INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, PEER_ENABLED = 704,
    HOST_REGISTERED = 712, HOST_NOT_REGISTERED = 713,
    COOPERATIVE_TOO_LARGE = 720, NOT_PERMITTED = 800, STREAM_CAPTURED = 900,
    SPOILT = 901, UNJOINED = 904, IMPLICIT = 906, CAPTURED_EVENT = 907, WRONG_THREAD = 908
};

/* ---- the whole ------------------------------------------------------------------------------ */

#define MOST_DEVICES 8

struct stream;

struct context {
    int device;
    int retained;
    struct stream *null;      /* the legacy default stream */
    struct stream *streams;   /* all others */
    size_t stack;             /* the limit that was set; 0: the driver's usual one */
    uint32_t peers;           /* bits: whose memory its kernels reach */
};

struct device {
    struct context primary;
    size_t used;
};

extern pthread_mutex_t big;   /* guards all that follows */
extern struct device devices[MOST_DEVICES];
extern int device_count, driver_version, sticky;
extern int of_devices[256];   /* attributes, those that a test has set */
extern size_t total_memory;
extern _Thread_local struct context *current;
extern _Thread_local int inside_callback;

/* What a call meets before it does anything: a failure that a test asked for, a device that is
 * lost, a driver that was not initialised, a host callback that may not call. */
CUresult enter(const char *name, int needs_context);
/* What a call gives that recordings of this thread, or others', do not allow; they are spoilt. */
CUresult prohibited(void);
#define ENTER(needs) do { CUresult met_ = enter(__func__, needs); if (met_) return met_; } while (0)

/* No thread works for the caller; see double_idle. */
extern int idle;

/* ---- streams -------------------------------------------------------------------------------- */

struct work {
    void (*run)(struct work *);
    void (*drop)(struct work *);
    int references, done, kind;   /* `kind`: as in CUgraphNodeType */
    double reached;           /* seconds, when done */
    struct work *next, **after;
    int after_count;
    uint64_t numbers[12];
    void *pointers[4];
};

struct graph;

/* What some point of a recording comes after: for each of its streams, how much of its work. */
#define MOST_RECORDED 16
struct past { int work[MOST_RECORDED]; };

struct stream {
    struct context *context;
    unsigned flags;
    int priority, destroyed;
    pthread_t thread;
    struct work *first, *last_queued, *last;
    struct stream *next;
    struct graph *capturing;
    int place;                /* among the streams of the recording */
    struct past past;
};

enum { A_KERNEL, A_COPY, A_FILL, A_CALL };

struct work *new_work(void (*run)(struct work *), int kind);
CUresult find_stream(uint64_t handle, struct stream **found);
/* Hand over; with `wait`, return when it is done. Takes the reference of `work`. */
CUresult submit(struct stream *stream, struct work *work, int wait);
void wait_for_all(struct context *context);   /* `big` is held */

/* ---- memory --------------------------------------------------------------------------------- */

enum kind { PAGEABLE, DEVICE, PINNED, REGISTERED, MANAGED };

enum kind kind_of(uint64_t address, size_t bytes, uint64_t *on_device);
int is_reachable(uint64_t address, size_t bytes);   /* by a copy */


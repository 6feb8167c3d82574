/* Devices, memory, streams, events, graphs: HIP's functions by those of the other stand-in. */
#define _GNU_SOURCE
#include "hip.h"

#include <unistd.h>

#ifndef HIP_MAJOR
#define HIP_MAJOR 7
#endif

_Thread_local int hip_device, last_error;

/* ---- what is watched ------------------------------------------------------------------------- */

struct living { enum held kind; uint64_t handle; struct living *next; };
static struct living *living;
static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;
static int counts[HELD_KINDS], misuses;
static char last_misuse[64];
static int runtime_version = HIP_MAJOR * 10000000 + (HIP_MAJOR == 5 ? 2 : 1) * 100000;
static const char *architecture = "gfx90a:sramecc+:xnack-";
static int no_managed, no_ranges;
/* What tests have set: (attribute, value), -1 where the runtime does not know it. */
static int set_attributes[16][2], set_count;

#define MOST_CALLS 4096
static struct call { const char *name; uint64_t first, second; } calls[MOST_CALLS];
static long call_count;

void born(enum held kind, uint64_t handle)
{
    struct living *made = calloc(1, sizeof *made);
    pthread_mutex_lock(&watching);
    made->kind = kind, made->handle = handle, made->next = living, living = made;
    counts[kind]++;
    pthread_mutex_unlock(&watching);
}

int gone(enum held kind, uint64_t handle)
{
    int found = 0;
    pthread_mutex_lock(&watching);
    for (struct living **at = &living; *at && !found;)
        if ((*at)->kind == kind && (*at)->handle == handle) {
            struct living *old = *at;
            *at = old->next, found = 1;
            free(old);
            counts[kind]--;
        } else
            at = &(*at)->next;
    pthread_mutex_unlock(&watching);
    return found;
}

int alive(enum held kind, uint64_t handle)
{
    int found = 0;
    if (idle) return 1;
    pthread_mutex_lock(&watching);
    for (struct living *at = living; at; at = at->next)
        found |= at->kind == kind && at->handle == handle;
    pthread_mutex_unlock(&watching);
    return found;
}

void misused(const char *what)
{
    misuses++;
    strncpy(last_misuse, what, sizeof last_misuse - 1);
}

void wrote(const char *name, uint64_t first, uint64_t second)
{
    if (idle) return;
    pthread_mutex_lock(&watching);
    calls[call_count++ % MOST_CALLS] = (struct call){name, first, second};
    pthread_mutex_unlock(&watching);
}

API int hip_double_alive(int kind) { return counts[kind]; }
API int hip_double_misuses(char *what) { if (what) strcpy(what, last_misuse); return misuses; }
API int hip_double_last_error(void) { return last_error; }
API long hip_double_count(void) { return call_count; }
API const char *hip_double_call(long number, uint64_t *first, uint64_t *second)
{
    struct call *found = &calls[number % MOST_CALLS];
    *first = found->first, *second = found->second;
    return found->name;
}
API void hip_double_architecture(const char *name) { architecture = strdup(name); }
API void hip_double_version(int version) { runtime_version = version; }
API void hip_double_attribute(int attribute, int value)
{
    set_attributes[set_count][0] = attribute, set_attributes[set_count++][1] = value;
}
/* From now on kernels do nothing, no thread works beside the caller, and nothing is watched. */
API void hip_double_idle(void) { idle = 1; }
API void hip_double_without(int managed, int ranges) { no_managed = managed, no_ranges = ranges; }

void double_configure(int, int, uint64_t, int);
void double_fail(const char *, int, int, int);
void double_heal(void);
void double_lose(int);
long double_calls(const char *);
void double_interpreter(const void *);
API void hip_double_configure(int devices_, uint64_t memory, int init_status)
{
    double_configure(devices_, 13000, memory, init_status);
}
API void hip_double_fail(const char *n, int s, int a, int t) { double_fail(n, s, a, t); }
API void hip_double_heal(void) { double_heal(); }
API void hip_double_lose(int status) { double_lose(status); }
API long hip_double_calls(const char *name) { return double_calls(name); }
API void hip_double_interpreter(const void *table) { double_interpreter(table); }

hipError_t done(hipError_t status)
{
    if (status) last_error = status;
    return status;
}

hipError_t begin(const char *name, int needs_device)
{
    current = device_count ? &devices[hip_device].primary : NULL;
    if (current) current->device = hip_device;
    wrote(name, 0, 0);
    return enter(name, needs_device);
}

/* ---- the runtime ----------------------------------------------------------------------------- */

CUresult cuInit(unsigned), cuGetErrorName(int, const char **), cuGetErrorString(int, const char **);

API hipError_t hipInit(unsigned flags)
{
    hipError_t met = begin(__func__, 0);
    return done(met && met != NOT_INITIALIZED ? met : cuInit(flags));
}

API hipError_t hipRuntimeGetVersion(int *version)
{
    hipError_t met = begin(__func__, 0);
    *version = runtime_version;
    return done(met == NOT_INITIALIZED ? SUCCESS : met);
}

API hipError_t hipGetLastError(void) { int was = last_error; last_error = 0; return was; }

API const char *hipGetErrorName(hipError_t status)
{
    static _Thread_local char text[80];
    const char *found;
    if (cuGetErrorName(status, &found)) return "hipErrorUnknown";
    snprintf(text, sizeof text, "hip%s", found + 4);   /* hip_ERROR_INVALID_VALUE */
    return text;
}

API const char *hipGetErrorString(hipError_t status)
{
    const char *found;
    return cuGetErrorString(status, &found) ? "unknown error" : found;
}

/* ---- devices --------------------------------------------------------------------------------- */

CUresult cuDeviceGetName(char *, int, int), cuDeviceGetPCIBusId(char *, int, int);
CUresult cuDeviceTotalMem(size_t *, int), cuDeviceCanAccessPeer(int *, int, int);
CUresult cuCtxEnablePeerAccess(struct context *, unsigned), cuCtxSynchronize(void);

API hipError_t hipGetDeviceCount(int *count)
{
    BEGIN(0);
    *count = device_count;
    return done(device_count ? SUCCESS : NO_DEVICE);
}

API hipError_t hipSetDevice(int device)
{
    BEGIN(0);
    if (device < 0 || device >= device_count) return done(INVALID_DEVICE);
    hip_device = device;
    return SUCCESS;
}

API hipError_t hipGetDevice(int *device)
{
    hipError_t status = enter(__func__, 0);
    *device = hip_device;
    return done(status);
}

API hipError_t hipDeviceGetName(char *name, int length, int device)
{
    BEGIN(0);
    return done(cuDeviceGetName(name, length, device));
}

#if HIP_MAJOR >= 6
API hipError_t hipDeviceGetUuid(char *uuid, int device)
{
    BEGIN(0);
    memcpy(uuid, "0123456789abcde0", 16);
    uuid[15] += device;
    return SUCCESS;
}
#endif

API hipError_t hipDeviceTotalMem(size_t *bytes, int device)
{
    BEGIN(0);
    return done(cuDeviceTotalMem(bytes, device));
}

API hipError_t hipDeviceGetPCIBusId(char *text, int length, int device)
{
    BEGIN(0);
    return done(cuDeviceGetPCIBusId(text, length, device));
}

static int major_of(void) { return architecture[5] && architecture[5] != ':' && architecture[6]
    && architecture[6] != ':' ? 10 * (architecture[3] - '0') + architecture[4] - '0'
    : architecture[3] - '0'; }

static int minor_of(void) { return architecture[major_of() > 9 ? 5 : 4] - '0'; }

API hipError_t hipDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN(0);
    if (device < 0 || device >= device_count) return done(INVALID_DEVICE);
    for (int i = set_count; i--;)
        if (set_attributes[i][0] == attribute) {
            *value = set_attributes[i][1];
            return done(*value < 0 ? INVALID_VALUE : SUCCESS);
        }
    switch (attribute) {
    case 3: case 8: case 78: case 85: *value = 1; break;
    case 2: *value = 2; break;
    case 57: *value = 2048; break;
    case 19: *value = 8 << 20; break;
    case 71: *value = 65536; break;
    case 10: case 24: *value = attribute == 24 ? !no_managed : 1; break;
    case 23: *value = major_of(); break;
    case 61: *value = minor_of(); break;
    case 26: case 27: case 28: case 56: *value = 1024; break;
    case 29: case 58: *value = 0x7fffffff; break;
    case 30: case 31: *value = 65536; break;
    case 63: *value = 4; break;
    case 74: *value = 65536; break;
    case 87: *value = major_of() > 9 ? 32 : 64; break;
    case 89: if (HIP_MAJOR < 6) return done(INVALID_VALUE); *value = !no_ranges; break;
    case 10017: if (HIP_MAJOR < 6) return done(INVALID_VALUE); *value = 100000; break;
    default:
        if (attribute < 0 || attribute > 19999) return done(INVALID_VALUE);
        *value = 0;
    }
    return SUCCESS;
}

/* The architecture is 396 bytes from the start in ROCm 5, 1160 in 6 and 7. */
static hipError_t tell(char *properties, int device, size_t bytes, size_t at)
{
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    memset(properties, 0, bytes);
    snprintf(properties, 256, "Stand-in GPU %d", device);
    *(size_t *)(properties + 256) = total_memory;
    snprintf(properties + at, 256, "%s", architecture);
    return SUCCESS;
}

API hipError_t hipGetDeviceProperties(char *properties, int device)
{
    BEGIN(0);
    return done(tell(properties, device, 792, 396));
}

#if HIP_MAJOR >= 6
API hipError_t hipGetDevicePropertiesR0600(char *properties, int device)
{
    BEGIN(0);
    return done(tell(properties, device, 1472, 1160));
}
#endif

API hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    BEGIN(0);
    return done(cuDeviceCanAccessPeer(can, device, peer));
}

API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    BEGIN(1);
    if (peer < 0 || peer >= device_count || peer == hip_device) return done(INVALID_DEVICE);
    devices[peer].primary.device = peer;
    return done(cuCtxEnablePeerAccess(&devices[peer].primary, flags));
}

API hipError_t hipDeviceSynchronize(void) { BEGIN(1); return done(cuCtxSynchronize()); }

API hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    BEGIN(1);
    *least = 1, *greatest = -1;
    return SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

CUresult cuMemGetInfo(size_t *, size_t *), cuMemAlloc(uint64_t *, size_t), cuMemFree(uint64_t);
CUresult cuMemAllocManaged(uint64_t *, size_t, unsigned), cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *), cuMemHostRegister(void *, size_t, unsigned), cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer(uint64_t *, void *, unsigned);
CUresult cuPointerGetAttributes(unsigned, const int *, void **, uint64_t);
CUresult cuMemGetAddressRange(uint64_t *, size_t *, uint64_t);
struct location { int type, id; };
CUresult cuMemPrefetchAsync(uint64_t, size_t, struct location, unsigned, uint64_t);
CUresult cuMemAdvise(uint64_t, size_t, int, struct location);
CUresult cuMemcpyAsync(uint64_t, uint64_t, size_t, uint64_t);
CUresult cuMemsetD8Async(uint64_t, unsigned char, size_t, uint64_t);
CUresult cuMemsetD16Async(uint64_t, unsigned short, size_t, uint64_t);
CUresult cuMemsetD32Async(uint64_t, unsigned, size_t, uint64_t);

API hipError_t hipMemGetInfo(size_t *free_, size_t *total)
{
    BEGIN(1);
    return done(cuMemGetInfo(free_, total));
}

API hipError_t hipMalloc(uint64_t *made, size_t bytes)
{
    BEGIN(1);
    hipError_t status = cuMemAlloc(made, bytes);
    if (!status) born(MEMORY, *made);
    wrote("malloc", status ? 0 : *made, bytes);
    return done(status);
}

API hipError_t hipFree(uint64_t address)
{
    BEGIN(1);
    wrote("free", address, 0);
    if (!gone(MEMORY, address)) {
        misused(__func__);
        return done(INVALID_VALUE);
    }
    return done(cuMemFree(address));
}

API hipError_t hipMallocManaged(uint64_t *made, size_t bytes, unsigned flags)
{
    BEGIN(1);
    hipError_t status = cuMemAllocManaged(made, bytes, flags);
    if (!status) born(MEMORY, *made);
    return done(status);
}

API hipError_t hipHostMalloc(void **made, size_t bytes, unsigned flags)
{
    BEGIN(1);
    if (flags & ~0xc0000007u || flags >> 30 == 3) return done(INVALID_VALUE);
    hipError_t status = cuMemHostAlloc(made, bytes, flags & 7);
    if (!status) born(HOST_MEMORY, (uint64_t)*made);
    wrote("hostmalloc", bytes, flags);
    return done(status);
}

API hipError_t hipHostFree(void *address)
{
    BEGIN(1);
    if (!gone(HOST_MEMORY, (uint64_t)address)) {
        misused(__func__);
        return done(INVALID_VALUE);
    }
    return done(cuMemFreeHost(address));
}

API hipError_t hipHostRegister(void *address, size_t bytes, unsigned flags)
{
    BEGIN(1);
    hipError_t status = cuMemHostRegister(address, bytes, flags);
    if (!status) born(REGISTRATION, (uint64_t)address);
    return done(status);
}

API hipError_t hipHostUnregister(void *address)
{
    BEGIN(1);
    gone(REGISTRATION, (uint64_t)address);
    return done(cuMemHostUnregister(address));
}

API hipError_t hipHostGetDevicePointer(uint64_t *found, void *address, unsigned flags)
{
    BEGIN(1);
    return done(cuMemHostGetDevicePointer(found, address, flags));
}

struct attributes { int type, device; void *on_device, *on_host; int managed; unsigned flags; };

API hipError_t hipPointerGetAttributes(struct attributes *told, uint64_t address)
{
    static const int asked[] = {2, 3, 9};
    unsigned type = 0;
    uint64_t at = 0;
    int device = -1;
    BEGIN(0);
    hipError_t status = cuPointerGetAttributes(3, asked, (void *[]){&type, &at, &device}, address);
    if (status) return done(status);
    memset(told, 0, sizeof *told);
    if (HIP_MAJOR < 6) {
        if (!at) return done(INVALID_VALUE);
        told->type = type == 1 ? 0 : 1;
    } else
        told->type = !at ? 0 : (int)type;
    told->device = at ? device : -2;
    told->on_device = (void *)at;
    if (!at) told->on_host = (void *)address;
    return SUCCESS;
}

API hipError_t hipMemGetAddressRange(uint64_t *start, size_t *bytes, uint64_t address)
{
    BEGIN(1);
    return done(cuMemGetAddressRange(start, bytes, address));
}

static struct location place(int device)
{
    return device < 0 ? (struct location){2, 0} : (struct location){1, device};
}

API hipError_t hipMemPrefetchAsync(uint64_t address, size_t bytes, int device, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    if (device < -1) return done(INVALID_DEVICE);
    return done(cuMemPrefetchAsync(address, bytes, place(device), 0, stream));
}

API hipError_t hipMemAdvise(uint64_t address, size_t bytes, int advice, int device)
{
    BEGIN(1);
    return done(cuMemAdvise(address, bytes, advice, place(device)));
}

API hipError_t hipMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, int kind, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    wrote("copy", to, bytes);
    if (kind != 4) return done(INVALID_VALUE);
    return done(cuMemcpyAsync(to, from, bytes, stream));
}

/* As those of the other stand-in; every side is where its address says. */
struct side2 { size_t x, y; int type; void *host; uint64_t device; void *array; size_t pitch; };
struct copy2 { struct side2 from, to; size_t width, height; };
CUresult cuMemcpy2DAsync(const struct copy2 *, uint64_t);
struct side3 { size_t x, y, z, level; int type; void *host; uint64_t device; void *array, *reserved;
               size_t pitch, height; };
struct copy3 { struct side3 from, to; size_t width, height, depth; };
CUresult cuMemcpy3DAsync(const struct copy3 *, uint64_t);

API hipError_t hipMemcpy2DAsync(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch,
                                size_t width, size_t height, int kind, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    wrote("copy2", to, width * height);
    if (kind != 4) return done(INVALID_VALUE);
    if (to_pitch < width || from_pitch < width) return done(12);   /* hipErrorInvalidPitchValue */
    struct copy2 c = {{.type = 4, .device = from, .pitch = from_pitch},
                      {.type = 4, .device = to, .pitch = to_pitch}, width, height};
    return done(cuMemcpy2DAsync(&c, stream));
}

struct pitched { uint64_t at; size_t pitch, width, height; };
struct box {
    void *from_array; size_t from_place[3]; struct pitched from;
    void *to_array; size_t to_place[3]; struct pitched to;
    size_t width, height, depth;
    int kind;
};

API hipError_t hipMemcpy3DAsync(const struct box *b, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    wrote("copy3", b->to.at, b->width * b->height * b->depth);
    for (int i = 0; i < 3; i++)
        if (b->from_place[i] || b->to_place[i]) return done(INVALID_VALUE);
    if (b->kind != 4 || b->from_array || b->to_array) return done(INVALID_VALUE);
    struct copy3 c = {
        {.type = 4, .device = b->from.at, .pitch = b->from.pitch, .height = b->from.height},
        {.type = 4, .device = b->to.at, .pitch = b->to.pitch, .height = b->to.height},
        b->width, b->height, b->depth};
    return done(cuMemcpy3DAsync(&c, stream));
}

API hipError_t hipMemsetD8Async(uint64_t to, unsigned char value, size_t count, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuMemsetD8Async(to, value, count, stream));
}

API hipError_t hipMemsetD16Async(uint64_t to, unsigned short value, size_t count, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuMemsetD16Async(to, value, count, stream));
}

API hipError_t hipMemsetD32Async(uint64_t to, int value, size_t count, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuMemsetD32Async(to, value, count, stream));
}

/* ---- addresses first, memory later ------------------------------------------------------------ */

#if HIP_MAJOR >= 6
struct properties { int type, handles; struct location place; void *windows; unsigned char flags[8]; };
struct access { struct location place; int flags; };
CUresult cuMemGetAllocationGranularity(size_t *, const struct properties *, int);
CUresult cuMemAddressReserve(uint64_t *, size_t, size_t, uint64_t, uint64_t);
CUresult cuMemAddressFree(uint64_t, size_t), cuMemCreate(void **, size_t, const void *, uint64_t);
CUresult cuMemRelease(void *), cuMemMap(uint64_t, size_t, size_t, void *, uint64_t);
CUresult cuMemUnmap(uint64_t, size_t), cuMemSetAccess(uint64_t, size_t, const struct access *, size_t);
CUresult cuMemRetainAllocationHandle(void **, void *);
CUresult cuMemExportToShareableHandle(int *, void *, int, uint64_t);
CUresult cuMemImportFromShareableHandle(void **, void *, int);

API hipError_t hipMemGetAllocationGranularity(size_t *bytes, const struct properties *wanted, int option)
{
    BEGIN(0);
    return done(cuMemGetAllocationGranularity(bytes, wanted, option));
}

API hipError_t hipMemAddressReserve(uint64_t *made, size_t bytes, size_t alignment, uint64_t wish,
                                    uint64_t flags)
{
    BEGIN(1);
    hipError_t status = cuMemAddressReserve(made, bytes, alignment, wish, flags);
    if (!status) born(RANGE, *made);
    return done(status);
}

API hipError_t hipMemAddressFree(uint64_t address, size_t bytes)
{
    BEGIN(1);
    hipError_t status = cuMemAddressFree(address, bytes);
    if (!status && !gone(RANGE, address)) misused(__func__);
    return done(status);
}

API hipError_t hipMemCreate(void **made, size_t bytes, const void *wanted, uint64_t flags)
{
    BEGIN(1);
    hipError_t status = cuMemCreate(made, bytes, wanted, flags);
    if (!status) born(CHUNK, (uint64_t)*made);
    return done(status);
}

API hipError_t hipMemRelease(void *chunk)
{
    BEGIN(1);
    if (!gone(CHUNK, (uint64_t)chunk)) {
        misused(__func__);
        return done(INVALID_VALUE);
    }
    return done(cuMemRelease(chunk));
}

API hipError_t hipMemMap(uint64_t address, size_t bytes, size_t offset, void *chunk, uint64_t flags)
{
    BEGIN(1);
    IS(CHUNK, (uint64_t)chunk);
    return done(cuMemMap(address, bytes, offset, chunk, flags));
}

API hipError_t hipMemUnmap(uint64_t address, size_t bytes)
{
    BEGIN(1);
    return done(cuMemUnmap(address, bytes));
}

API hipError_t hipMemSetAccess(uint64_t address, size_t bytes, const struct access *wanted, size_t count)
{
    BEGIN(1);
    return done(cuMemSetAccess(address, bytes, wanted, count));
}

API hipError_t hipMemRetainAllocationHandle(void **found, void *address)
{
    BEGIN(0);
    hipError_t status = cuMemRetainAllocationHandle(found, address);
    if (!status) born(CHUNK, (uint64_t)*found);
    return done(status);
}

API hipError_t hipMemExportToShareableHandle(int *file, void *chunk, int type, uint64_t flags)
{
    BEGIN(1);
    return done(cuMemExportToShareableHandle(file, chunk, type, flags));
}

/* Since ROCm 7.1 the descriptor itself is given, before that where it is. */
API hipError_t hipMemImportFromShareableHandle(void **made, void *file, int type)
{
    BEGIN(1);
    if (runtime_version < 70100000) file = (void *)(intptr_t) * (int *)file;
    hipError_t status = cuMemImportFromShareableHandle(made, file, type);
    if (!status) born(CHUNK, (uint64_t)*made);
    return done(status);
}
#endif

/* ---- other processes -------------------------------------------------------------------------- */

struct handle { int process, file; uint64_t size; char rest[48]; };
CUresult cuIpcGetMemHandle(struct handle *, uint64_t);
CUresult cuIpcOpenMemHandle(uint64_t *, struct handle, unsigned), cuIpcCloseMemHandle(uint64_t);

API hipError_t hipIpcGetMemHandle(struct handle *made, uint64_t address)
{
    BEGIN(1);
    return done(cuIpcGetMemHandle(made, address));
}

API hipError_t hipIpcOpenMemHandle(uint64_t *made, struct handle handle, unsigned flags)
{
    BEGIN(1);
    hipError_t status = cuIpcOpenMemHandle(made, handle, flags);
    if (!status) born(OPENED, *made);
    return done(status);
}

API hipError_t hipIpcCloseMemHandle(uint64_t address)
{
    BEGIN(1);
    if (!gone(OPENED, address)) misused(__func__);
    return done(cuIpcCloseMemHandle(address));
}

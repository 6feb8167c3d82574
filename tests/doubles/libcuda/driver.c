/* Initialisation, devices, contexts, errors, and the knobs that tests turn. */
#define _GNU_SOURCE
#include "double.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
struct device devices[MOST_DEVICES];
int device_count = 1, driver_version = 13000, sticky = 0;
size_t total_memory = (size_t)1 << 30;
_Thread_local struct context *current;
_Thread_local int inside_callback;

static int initialised, init_status, owner;
/* The numbers of the devices that CUDA_VISIBLE_DEVICES shows, by theirs here. */
static int shown[MOST_DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7};
int of_devices[256];

/* ---- knobs ---------------------------------------------------------------------------------- */

struct injected { char name[64]; int status, after, times; struct injected *next; };
static struct injected *injections;
/* What is known of a function by where its name stands, so that a call compares no texts. */
#define MOST_NAMES 1024
struct counted { const char *name; long calls; int is_unsafe; };
static struct counted counts[MOST_NAMES];

EXPORT void double_configure(int devices_, int version, uint64_t memory, int init_status_)
{
    device_count = devices_, driver_version = version, init_status = init_status_;
    if (memory) total_memory = memory;
}

/* Let calls of `name` give `status`: after so many that do not, so many times. */
EXPORT void double_fail(const char *name, int status, int after, int times)
{
    struct injected *made = calloc(1, sizeof *made);
    strncpy(made->name, name, sizeof made->name - 1);
    made->status = status, made->after = after, made->times = times;
    pthread_mutex_lock(&big);
    made->next = injections, injections = made;
    pthread_mutex_unlock(&big);
}

EXPORT void double_heal(void)
{
    pthread_mutex_lock(&big);
    while (injections) {
        struct injected *gone = injections;
        injections = gone->next;
        free(gone);
    }
    sticky = 0;
    pthread_mutex_unlock(&big);
}

EXPORT void double_lose(int status) { sticky = status; }

EXPORT void double_attribute(int attribute, int value) { of_devices[attribute] = value; }

EXPORT long double_calls(const char *name)
{
    long found = 0;
    pthread_mutex_lock(&big);
    for (struct counted *at = counts; at < counts + MOST_NAMES; at++)
        if (at->name && !strcmp(at->name, name)) found += at->calls;
    pthread_mutex_unlock(&big);
    return found;
}

/* What is no work of a stream, so that a recording does not see it: "potentially unsafe" in CUDA's
 * words, which gives memory as an example. Of events, modules, graphs and new streams other libraries
 * tell; the rest of it is here to be strict. */
static int is_unsafe(const char *name)
{
    static const char *const names[] = {
        "cuMemAlloc", "cuMemAllocManaged", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost",
        "cuMemHostRegister", "cuMemHostUnregister", "cuMemAddressReserve", "cuMemAddressFree",
        "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
        "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle", "cuIpcGetMemHandle", "cuIpcOpenMemHandle",
        "cuIpcCloseMemHandle", "cuMemAdvise", "cuModuleLoadDataEx", "cuModuleUnload",
        "cuModuleGetFunction", "cuModuleGetGlobal", "cuFuncGetAttribute", "cuFuncSetAttribute",
        "cuLinkCreate", "cuLinkAddData", "cuLinkComplete", "cuLinkDestroy",
        "cuStreamCreateWithPriority", "cuStreamDestroy", "cuStreamQuery", "cuStreamSynchronize",
        "cuEventCreate", "cuEventDestroy", "cuEventQuery", "cuEventSynchronize",
        "cuEventElapsedTime", "cuGraphInstantiateWithFlags", "cuGraphDestroy",
        "cuGraphExecDestroy", "cuCtxEnablePeerAccess", "cuDevicePrimaryCtxRetain",
        "cuCtxGetLimit", "cuCtxSetLimit",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return 1;
    return 0;
}

static struct counted *counted(const char *name)
{
    size_t at = ((uintptr_t)name >> 3) % MOST_NAMES;
    while (counts[at].name && counts[at].name != name) at = (at + 1) % MOST_NAMES;
    if (!counts[at].name) counts[at] = (struct counted){name, 0, is_unsafe(name)};
    return &counts[at];
}

CUresult enter(const char *name, int needs_context)
{
    CUresult status = SUCCESS;
    int unsafe;
    if (idle && initialised) return needs_context && !current ? INVALID_CONTEXT : SUCCESS;
    pthread_mutex_lock(&big);
    struct counted *of = counted(name);
    of->calls++, unsafe = of->is_unsafe;
    for (struct injected *at = injections; at && !status; at = at->next)
        if (!strcmp(at->name, name) && at->after-- <= 0 && at->times-- > 0) status = at->status;
    pthread_mutex_unlock(&big);
    if (status) return status;
    if (inside_callback) return NOT_PERMITTED;
    if (!initialised || owner != getpid()) return NOT_INITIALIZED;
    if (needs_context && !current) return INVALID_CONTEXT;
    if (needs_context && sticky) return sticky;
    return unsafe ? prohibited() : SUCCESS;
}

/* ---- initialisation ------------------------------------------------------------------------- */

/* As the driver reads it: up to the first that is no number of a device. */
static void look_at_what_is_visible(void)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    if (!at) return;
    int count = 0, there = device_count;
    while (count < there) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= there) break;
        shown[count++] = number;
        if (*end != ',') break;
        at = end + 1;
    }
    device_count = count;
}

EXPORT CUresult cuInit(unsigned flags)
{
    if (flags) return INVALID_VALUE;
    if (init_status) return init_status;
    if (!initialised) look_at_what_is_visible();
    if (!device_count) return NO_DEVICE;
    if (initialised && owner != getpid()) return NOT_INITIALIZED;
    initialised = 1, owner = getpid();
    return SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) { *version = driver_version; return SUCCESS; }

/* Functions that are newer than the driver are not found, as is what this double does not have. */
EXPORT CUresult cuGetProcAddress_v2(
    const char *name, void **found, int version, uint64_t flags, int *why)
{
    static void *self;
    (void)flags;
    if (!self) {
        Dl_info info;
        dladdr((void *)cuInit, &info);
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    *found = version > driver_version ? NULL : dlsym(self, name);
    if (version < 12080 && !strcmp(name, "cuEventElapsedTime"))
        *found = dlsym(self, "cuEventElapsedTime");
    if (!strncmp(name, "cuGetProcAddress", 16)) *found = (void *)cuGetProcAddress_v2;
    if (why) *why = *found ? 0 : version > driver_version ? 2 : 1;
    return *found ? SUCCESS : NOT_FOUND;
}

/* ---- errors --------------------------------------------------------------------------------- */

static const struct { int status; const char *name, *text; } texts[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an "
                                                "unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory "
                                                       "range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered "
                                                   "memory region"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda "
                                               "driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is "
                                                   "capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error "
                                                   "during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on "
                                                "a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a "
                                       "capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture "
                                                    "sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult look_up(int status, const char **found, int name)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) {
            *found = name ? texts[i].name : texts[i].text;
            return SUCCESS;
        }
    *found = NULL;
    return INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(int status, const char **name) { return look_up(status, name, 1); }

EXPORT CUresult cuGetErrorString(int status, const char **text) { return look_up(status, text, 0); }

/* ---- devices -------------------------------------------------------------------------------- */

static int known(int device) { return device >= 0 && device < device_count; }

EXPORT CUresult cuDeviceGetCount(int *found) { ENTER(0); *found = device_count; return SUCCESS; }

EXPORT CUresult cuDeviceGet(int *device, int number)
{
    ENTER(0);
    *device = number;
    return known(number) ? SUCCESS : INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, int device)
{
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    snprintf(name, length, "Stand-in GPU %d", shown[device]);
    return SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(unsigned char *uuid, int device)
{
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    for (int i = 0; i < 16; i++) uuid[i] = 16 * i + shown[device];
    return SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, int device)
{
    ENTER(0);
    *bytes = total_memory;
    return known(device) ? SUCCESS : INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, int device)
{
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    snprintf(text, length, "0000:%02X:00.0", 0x41 + shown[device]);
    return SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int figures[][2] = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535},
        {8, 49152}, {9, 65536}, {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1980000},
        {16, 4}, {19, 1}, {31, 1}, {33, 0x41}, {38, 52428800}, {39, 2048}, {40, 3}, {41, 1},
        {75, 9}, {76, 0}, {78, 1}, {81, 233472}, {82, 65536}, {83, 1}, {88, 0}, {89, 1},
        {91, 0}, {95, 1}, {97, 232448}, {102, 1}, {103, 1}, {106, 32},
    };
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    if (attribute < 1 || attribute > 140) return INVALID_VALUE;
    *value = of_devices[attribute];
    for (size_t i = 0; i < sizeof figures / sizeof *figures && !*value; i++)
        if (figures[i][0] == attribute) *value = figures[i][1];
    return SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    ENTER(0);
    *can = device != peer;
    return known(device) && known(peer) ? SUCCESS : INVALID_DEVICE;
}

/* ---- contexts ------------------------------------------------------------------------------- */

EXPORT CUresult cuDevicePrimaryCtxRetain(struct context **context, int device)
{
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    devices[device].primary.device = device;
    devices[device].primary.retained++;
    *context = &devices[device].primary;
    return SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(int device)
{
    ENTER(0);
    if (!known(device)) return INVALID_DEVICE;
    return devices[device].primary.retained-- > 0 ? SUCCESS : INVALID_CONTEXT;
}

EXPORT CUresult cuCtxGetCurrent(struct context **context)
{
    ENTER(0);
    *context = current;
    return SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(struct context *context)
{
    ENTER(0);
    current = context;
    return SUCCESS;
}

EXPORT CUresult cuCtxCreate(struct context **made, void *parameters, unsigned flags, int device)
{
    ENTER(0);
    (void)parameters, (void)flags;
    if (!known(device)) return INVALID_DEVICE;
    *made = current = calloc(1, sizeof **made);
    current->device = device;
    return SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(1);
    *least = 0, *greatest = -5;
    return SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit)
{
    ENTER(1);
    if (limit) return INVALID_VALUE;
    *value = current->stack ? current->stack : 1024;
    return SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value)
{
    ENTER(1);
    if (limit || value > 512 << 10) return INVALID_VALUE;
    current->stack = value;
    return SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(struct context *peer, unsigned flags)
{
    ENTER(1);
    if (flags || !peer) return INVALID_VALUE;
    if (current->peers >> peer->device & 1) return PEER_ENABLED;
    current->peers |= 1u << peer->device;
    return SUCCESS;
}

EXPORT CUresult cuProfilerStart(void) { ENTER(1); return SUCCESS; }

EXPORT CUresult cuProfilerStop(void) { ENTER(1); return SUCCESS; }

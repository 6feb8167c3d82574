/* Calls that other packages make and Haulage does not, as far as they are other words for what is
 * here: contexts on a stack, libraries, kernels, copies with their direction in the name. */
#define _GNU_SOURCE
#include "double.h"

#include <stdlib.h>

CUresult cuModuleLoadDataEx(uint64_t *, const void *, unsigned, int *, void **);
CUresult cuModuleUnload(uint64_t);
CUresult cuModuleGetFunction(uint64_t *, uint64_t, const char *);
CUresult cuModuleGetGlobal(CUdeviceptr *, size_t *, uint64_t, const char *);
CUresult cuFuncGetAttribute(int *, int, uint64_t);
CUresult cuFuncSetAttribute(uint64_t, int, int);
CUresult cuLaunchKernel(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, uint64_t, void **, void **);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, uint64_t);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, uint64_t);
CUresult cuStreamSynchronize(uint64_t);
CUresult cuStreamCreateWithPriority(uint64_t *, unsigned, int);
CUresult cuLaunchHostFunc(uint64_t, void *, void *);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, uint64_t, int, size_t);

/* ---- contexts ------------------------------------------------------------------------------- */

#define MOST_PUSHED 64
static _Thread_local struct context *pushed[MOST_PUSHED];
static _Thread_local int depth;

EXPORT CUresult cuCtxPushCurrent(struct context *context)
{
    ENTER(0);
    if (!context || depth == MOST_PUSHED) return INVALID_CONTEXT;
    pushed[depth++] = current;
    current = context;
    return SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(struct context **context)
{
    ENTER(0);
    if (!current) return INVALID_CONTEXT;
    if (context) *context = current;
    current = depth ? pushed[--depth] : NULL;
    return SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(int *device)
{
    ENTER(1);
    *device = current->device;
    return SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(uint64_t handle, struct context **context)
{
    struct stream *stream;
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    if (!status) *context = stream->context;
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    ENTER(0);
    if (device < 0 || device >= device_count) return INVALID_DEVICE;
    *flags = 0, *active = devices[device].primary.retained > 0;
    return SUCCESS;
}

/* ---- libraries ------------------------------------------------------------------------------ */

EXPORT CUresult cuLibraryLoadData(
    uint64_t *library, const void *code, int *options, void **values, unsigned count,
    int *library_options, void **library_values, unsigned library_count)
{
    (void)library_options, (void)library_values, (void)library_count;
    return cuModuleLoadDataEx(library, code, count, options, values);
}

EXPORT CUresult cuLibraryUnload(uint64_t library) { return cuModuleUnload(library); }

EXPORT CUresult cuLibraryGetModule(uint64_t *module, uint64_t library)
{
    ENTER(1);
    *module = library;
    return SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(uint64_t *kernel, uint64_t library, const char *name)
{
    return cuModuleGetFunction(kernel, library, name);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *at, size_t *bytes, uint64_t library, const char *name)
{
    return cuModuleGetGlobal(at, bytes, library, name);
}

EXPORT CUresult cuKernelGetFunction(uint64_t *function, uint64_t kernel)
{
    ENTER(1);
    *function = kernel;
    return SUCCESS;
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, uint64_t kernel, int device)
{
    (void)device;
    return cuFuncGetAttribute(value, attribute, kernel);
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, uint64_t kernel, int device)
{
    (void)device;
    return cuFuncSetAttribute(kernel, attribute, value);
}

/* Preferences, which change nothing here. */
EXPORT CUresult cuKernelSetCacheConfig(uint64_t kernel, int preference, int device)
{
    (void)kernel, (void)device;
    ENTER(1);
    return preference < 0 || preference > 3 ? INVALID_VALUE : SUCCESS;
}

EXPORT CUresult cuFuncSetCacheConfig(uint64_t function, int preference)
{
    return cuKernelSetCacheConfig(function, preference, 0);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, uint64_t function, int threads, size_t shared, unsigned flags)
{
    if (flags > 1) return INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

typedef size_t (*CUoccupancyB2DSize)(int threads);

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(
    int *blocks, int *threads, uint64_t function, CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    *threads = limit > 0 && limit < 1024 ? limit : 1024;
    if (shared_of) shared = shared_of(*threads);
    CUresult status = cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, *threads, shared);
    *blocks *= 4;
    return status;
}

/* ---- copies and fills that are waited for, or have their direction in their name ------------- */

static CUresult waited_for(CUresult status) { return status ? status : cuStreamSynchronize(0); }

EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return waited_for(cuMemcpyAsync(to, from, bytes, 0));
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, uint64_t stream)
{
    return cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, uint64_t stream)
{
    return cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream);
}

EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
    return waited_for(cuMemsetD8Async(to, value, count, 0));
}

/* ---- streams -------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreate(uint64_t *made, unsigned flags)
{
    return cuStreamCreateWithPriority(made, flags, 0);
}

typedef void (*CUstreamCallback)(uint64_t stream, CUresult status, void *data);
struct callback { CUstreamCallback call; uint64_t stream; void *data; };

static void call_back(void *given)
{
    struct callback *callback = given;
    callback->call(callback->stream, sticky, callback->data);
    free(callback);
}

EXPORT CUresult cuStreamAddCallback(
    uint64_t stream, CUstreamCallback call, void *data, unsigned flags)
{
    if (flags) return INVALID_VALUE;
    struct callback *callback = malloc(sizeof *callback);
    *callback = (struct callback){call, stream, data};
    CUresult status = cuLaunchHostFunc(stream, call_back, callback);
    if (status) free(callback);
    return status;
}

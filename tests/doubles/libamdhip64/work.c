/* Streams, events, graphs and code. */
#define _GNU_SOURCE
#include "hip.h"

#ifndef HIP_MAJOR
#define HIP_MAJOR 7
#endif

CUresult cuStreamCreateWithPriority(uint64_t *, unsigned, int), cuStreamDestroy(uint64_t);
CUresult cuStreamSynchronize(uint64_t), cuStreamQuery(uint64_t);
CUresult cuStreamWaitEvent(uint64_t, void *, unsigned), cuLaunchHostFunc(uint64_t, void *, void *);
CUresult cuEventCreate(uint64_t *, unsigned), cuEventDestroy(void *), cuEventRecord(void *, uint64_t);
CUresult cuEventSynchronize(void *), cuEventQuery(void *), cuEventElapsedTime(float *, void *, void *);

API hipError_t hipStreamCreateWithPriority(uint64_t *made, unsigned flags, int priority)
{
    BEGIN(1);
    hipError_t status = cuStreamCreateWithPriority(made, flags, priority);
    if (!status) born(STREAM, *made);
    wrote("stream", flags, (uint64_t)(int64_t)priority);
    return done(status);
}

API hipError_t hipStreamDestroy(uint64_t stream)
{
    BEGIN(1);
    if (!gone(STREAM, stream)) {
        misused(__func__);
        return done(INVALID_HANDLE);
    }
    return done(cuStreamDestroy(stream));
}

API hipError_t hipStreamSynchronize(uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuStreamSynchronize(stream));
}

API hipError_t hipStreamQuery(uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuStreamQuery(stream));
}

API hipError_t hipStreamWaitEvent(uint64_t stream, uint64_t event, unsigned flags)
{
    BEGIN(1);
    STREAM_IS(stream);
    IS(EVENT, event);
    return done(cuStreamWaitEvent(stream, (void *)event, flags));
}

#if HIP_MAJOR >= 6
API hipError_t hipLaunchHostFunc(uint64_t stream, void *function, void *argument)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuLaunchHostFunc(stream, function, argument));
}
#endif

struct callback { void (*function)(uint64_t, int, void *); uint64_t stream; void *argument; };

static void call(void *given)
{
    struct callback *callback = given;
    callback->function(callback->stream, 0, callback->argument);
    free(callback);
}

API hipError_t hipStreamAddCallback(uint64_t stream, void *function, void *argument, unsigned flags)
{
    BEGIN(1);
    STREAM_IS(stream);
    if (flags) return done(INVALID_VALUE);
    struct callback *made = malloc(sizeof *made);
    *made = (struct callback){function, stream, argument};
    return done(cuLaunchHostFunc(stream, call, made));
}

/* ---- events ----------------------------------------------------------------------------------- */

API hipError_t hipEventCreateWithFlags(uint64_t *made, unsigned flags)
{
    BEGIN(1);
    if (flags & ~2u) return done(INVALID_VALUE);
    hipError_t status = cuEventCreate(made, flags);
    if (!status) born(EVENT, *made);
    return done(status);
}

API hipError_t hipEventDestroy(uint64_t event)
{
    BEGIN(1);
    if (!gone(EVENT, event)) {
        misused(__func__);
        return done(INVALID_HANDLE);
    }
    return done(cuEventDestroy((void *)event));
}

API hipError_t hipEventRecord(uint64_t event, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    IS(EVENT, event);
    return done(cuEventRecord((void *)event, stream));
}

API hipError_t hipEventSynchronize(uint64_t event)
{
    BEGIN(1);
    IS(EVENT, event);
    return done(cuEventSynchronize((void *)event));
}

API hipError_t hipEventQuery(uint64_t event)
{
    BEGIN(1);
    IS(EVENT, event);
    return done(cuEventQuery((void *)event));
}

API hipError_t hipEventElapsedTime(float *milliseconds, uint64_t start, uint64_t end)
{
    BEGIN(1);
    IS(EVENT, start);
    IS(EVENT, end);
    return done(cuEventElapsedTime(milliseconds, (void *)start, (void *)end));
}

/* ---- graphs ----------------------------------------------------------------------------------- */

CUresult cuStreamBeginCapture(uint64_t, int), cuStreamEndCapture(uint64_t, uint64_t *);
CUresult cuStreamIsCapturing(uint64_t, int *), cuGraphInstantiateWithFlags(uint64_t *, void *, uint64_t);
CUresult cuGraphGetNodes(void *, void **, size_t *), cuGraphNodeGetType(void *, int *);
CUresult cuGraphDestroy(void *), cuGraphExecDestroy(void *), cuGraphLaunch(void *, uint64_t);

API hipError_t hipStreamBeginCapture(uint64_t stream, int mode)
{
    BEGIN(1);
    STREAM_IS(stream);
    if (mode != 2) return done(INVALID_VALUE);
    return done(cuStreamBeginCapture(stream, mode));
}

API hipError_t hipStreamEndCapture(uint64_t stream, uint64_t *graph)
{
    BEGIN(1);
    STREAM_IS(stream);
    hipError_t status = cuStreamEndCapture(stream, graph);
    if (!status) born(GRAPH, *graph);
    return done(status);
}

API hipError_t hipStreamIsCapturing(uint64_t stream, int *answer)
{
    BEGIN(1);
    STREAM_IS(stream);
    return done(cuStreamIsCapturing(stream, answer));
}

API hipError_t hipGraphInstantiate(uint64_t *made, uint64_t graph, void *node, char *log, size_t bytes)
{
    BEGIN(1);
    IS(GRAPH, graph);
    if (node || log || bytes) return done(INVALID_VALUE);
    hipError_t status = cuGraphInstantiateWithFlags(made, (void *)graph, 0);
    if (!status) born(EXECUTABLE, *made);
    return done(status);
}

API hipError_t hipGraphGetNodes(uint64_t graph, void **nodes, size_t *count)
{
    BEGIN(1);
    IS(GRAPH, graph);
    return done(cuGraphGetNodes((void *)graph, nodes, count));
}

API hipError_t hipGraphNodeGetType(void *node, int *kind)
{
    BEGIN(1);
    hipError_t status = cuGraphNodeGetType(node, kind);
    if (HIP_MAJOR < 6) ++*kind;
    return done(status);
}

API hipError_t hipGraphLaunch(uint64_t graph, uint64_t stream)
{
    BEGIN(1);
    STREAM_IS(stream);
    IS(EXECUTABLE, graph);
    return done(cuGraphLaunch((void *)graph, stream));
}

API hipError_t hipGraphDestroy(uint64_t graph)
{
    BEGIN(1);
    if (!gone(GRAPH, graph)) {
        misused(__func__);
        return done(INVALID_VALUE);
    }
    return done(cuGraphDestroy((void *)graph));
}

API hipError_t hipGraphExecDestroy(uint64_t graph)
{
    BEGIN(1);
    if (!gone(EXECUTABLE, graph)) {
        misused(__func__);
        return done(INVALID_VALUE);
    }
    return done(cuGraphExecDestroy((void *)graph));
}

/* ---- code ------------------------------------------------------------------------------------- */

CUresult cuModuleLoadDataEx(uint64_t *, const void *, unsigned, int *, void **), cuModuleUnload(uint64_t);
CUresult cuModuleGetFunction(uint64_t *, uint64_t, const char *);
CUresult cuModuleGetGlobal(uint64_t *, size_t *, uint64_t, const char *);
CUresult cuFuncGetAttribute(int *, int, uint64_t);
CUresult cuLaunchKernel(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        uint64_t, void **, void **);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, uint64_t, int, size_t);

API hipError_t hipModuleLoadData(uint64_t *module, const void *image)
{
    BEGIN(1);
    hipError_t status = cuModuleLoadDataEx(module, image, 0, NULL, NULL);
    if (!status) born(MODULE, *module);
    return done(status);
}

API hipError_t hipModuleUnload(uint64_t module)
{
    BEGIN(1);
    if (!gone(MODULE, module)) {
        misused(__func__);
        return done(INVALID_HANDLE);
    }
    return done(cuModuleUnload(module));
}

API hipError_t hipModuleGetFunction(uint64_t *function, uint64_t module, const char *name)
{
    BEGIN(1);
    IS(MODULE, module);
    return done(cuModuleGetFunction(function, module, name));
}

API hipError_t hipModuleGetGlobal(uint64_t *address, size_t *bytes, uint64_t module, const char *name)
{
    BEGIN(1);
    IS(MODULE, module);
    return done(cuModuleGetGlobal(address, bytes, module, name));
}

API hipError_t hipFuncGetAttribute(int *value, int attribute, uint64_t function)
{
    BEGIN(1);
    return done(cuFuncGetAttribute(value, attribute, function));
}

API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, uint64_t function, int threads, size_t shared)
{
    BEGIN(1);
    return done(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}

/* `extra` ends with 3 here, with 0 there. */
API hipError_t hipModuleLaunchKernel(
    uint64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, uint64_t stream, void **parameters, void **extra)
{
    BEGIN(1);
    STREAM_IS(stream);
    if (parameters) return done(INVALID_VALUE);
    if (shared > 65536 || (uint64_t)gx * bx >> 32) return done(9);   /* hipErrorInvalidConfiguration */
    void *plain[5] = {0};
    if (extra) {
        if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) {
            misused(__func__);
            return done(INVALID_VALUE);
        }
        memcpy(plain, extra, 4 * sizeof *plain);
        wrote("launch", function, *(size_t *)extra[3]);
    } else
        wrote("launch", function, 0);
    return done(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, NULL,
                               extra ? plain : NULL));
}

#if HIP_MAJOR >= 6
/* The parameters one by one, each of 8 bytes; of the suite's kernels, or as many as a test says. */
static int parameter_count;
API void hip_double_parameters(int count) { parameter_count = count; }

API hipError_t hipModuleLaunchCooperativeKernel(
    uint64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, uint64_t stream, void **parameters)
{
    BEGIN(1);
    STREAM_IS(stream);
    if ((uint64_t)gx * gy * gz > 4 * 2048 / (bx * by * bz)) return done(COOPERATIVE_TOO_LARGE);
    if (!parameter_count)
        return done(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, NULL));
    uint64_t packed[32];
    for (int i = 0; i < parameter_count; i++) {
        memcpy(packed + i, parameters[i], 8);
        wrote("argument", i, packed[i]);
    }
    size_t bytes = 8 * (size_t)parameter_count;
    void *extra[] = {(void *)1, packed, (void *)2, &bytes, NULL};
    return done(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, NULL, extra));
}
#endif

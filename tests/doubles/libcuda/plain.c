/* The driver's simplest functions, which the back end does without: what they do, others here do. */
#define _GNU_SOURCE
#include "double.h"

CUresult cuModuleLoadDataEx(uint64_t *, const void *, unsigned, int *, void **);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, uint64_t);
CUresult cuStreamSynchronize(uint64_t);

EXPORT CUresult cuModuleLoadData(uint64_t *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT CUresult cuMemAllocHost(void **made, size_t bytes) { return cuMemHostAlloc(made, bytes, 0); }

static CUresult copied(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUresult status = cuMemcpyAsync(to, from, bytes, 0);
    return status ? status : cuStreamSynchronize(0);
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return copied(to, (CUdeviceptr)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return copied((CUdeviceptr)(uintptr_t)to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, uint64_t stream)
{
    return cuMemcpyAsync(to, from, bytes, stream);
}

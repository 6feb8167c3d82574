/* Modules, functions, launches. What code means is asked of functions that the test sets. */
#define _GNU_SOURCE
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All give a CUresult. Handles of modules and functions are theirs; a launch runs the kernel, on
 * memory at the addresses that it is given. */
struct interpreter {
    CUresult (*load)(const void *image, void *log, size_t log_bytes, uint64_t *module);
    CUresult (*unload)(uint64_t module);
    CUresult (*function)(uint64_t module, const char *name, uint64_t *function);
    CUresult (*symbol)(uint64_t module, const char *name, uint64_t *address, uint64_t *bytes);
    CUresult (*launch)(uint64_t function, const unsigned *dims, const void *arguments, size_t bytes,
                       int together);
    CUresult (*attribute)(uint64_t function, int attribute, int *value);
};
static struct interpreter interpreter;

EXPORT void double_interpreter(const struct interpreter *given) { interpreter = *given; }

/* Code that does nothing, for what calls of the driver cost those who make them. */
int idle;

static CUresult idle_load(const void *image, void *log, size_t bytes, uint64_t *module)
{
    static uint64_t last;
    (void)image, (void)log, (void)bytes;
    *module = __atomic_add_fetch(&last, 0x1000, __ATOMIC_RELAXED);
    return SUCCESS;
}

static CUresult idle_unload(uint64_t module) { (void)module; return SUCCESS; }

static CUresult idle_function(uint64_t module, const char *name, uint64_t *function)
{
    (void)name;
    *function = module + 0x10;
    return SUCCESS;
}

static CUresult idle_symbol(uint64_t module, const char *name, uint64_t *address, uint64_t *bytes)
{
    (void)module, (void)name, (void)address, (void)bytes;
    return NOT_FOUND;
}

static CUresult idle_attribute(uint64_t function, int attribute, int *value)
{
    (void)function;
    *value = attribute == 0 ? 1024 : 0;
    return SUCCESS;
}

/* Kernels do nothing, copies are done by who asks for them, and allocations are the process's own:
 * no thread works beside the caller. */
EXPORT void double_idle(void)
{
    interpreter = (struct interpreter){
        idle_load, idle_unload, idle_function, idle_symbol, NULL, idle_attribute};
    idle = 1;
}

EXPORT CUresult cuModuleLoadDataEx(
    uint64_t *module, const void *image, unsigned count, int *options, void **values)
{
    void *log = NULL;
    size_t bytes = 0;
    ENTER(1);
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) log = values[i];
        if (options[i] == 6) bytes = (size_t)values[i];
    }
    return interpreter.load ? interpreter.load(image, log, bytes, module) : INVALID_IMAGE;
}

EXPORT CUresult cuModuleUnload(uint64_t module) { ENTER(1); return interpreter.unload(module); }

EXPORT CUresult cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name)
{
    ENTER(1);
    return interpreter.function(module, name, function);
}

EXPORT CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, uint64_t module, const char *name)
{
    uint64_t at, size;
    ENTER(1);
    CUresult status = interpreter.symbol(module, name, &at, &size);
    if (!status && address) *address = at;
    if (!status && bytes) *bytes = size;
    return status;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, uint64_t function)
{
    ENTER(1);
    return interpreter.attribute(function, attribute, value);
}

EXPORT CUresult cuFuncSetAttribute(uint64_t function, int attribute, int value)
{
    int known;
    ENTER(1);
    /* Dynamic shared memory in bytes; its share in percent, or -1 for the driver's choice. */
    if (attribute == 8 ? value < 0 || value > 232448 : attribute != 9 || value < -1 || value > 100)
        return INVALID_VALUE;
    return interpreter.attribute(function, attribute, &known);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, uint64_t function, int threads, size_t shared)
{
    int known;
    ENTER(1);
    if (threads < 1) return INVALID_VALUE;
    CUresult status = interpreter.attribute(function, 0, &known);
    if (status) return status;
    /* 0: the interpreter does not say how many its registers suffice for. */
    if (!known) known = 1024;
    *blocks = threads > known || threads > 1024 || shared > 232448 ? 0 : 2048 / threads;
    if (*blocks > 32) *blocks = 32;
    if (shared && (size_t)*blocks > 233472 / shared) *blocks = 233472 / shared;
    return SUCCESS;
}

static void run(struct work *work)
{
    unsigned dims[7];
    for (int i = 0; i < 7; i++) dims[i] = work->numbers[1 + i];
    CUresult status = interpreter.launch(
        work->numbers[0], dims, work->pointers[0], work->numbers[8], work->numbers[9]);
    if (status) sticky = status;
}

static void drop(struct work *work) { free(work->pointers[0]); }

static CUresult launch(
    uint64_t function, const unsigned *dims, uint64_t handle, void **parameters, void **extra,
    int together)
{
    struct stream *stream;
    char packed[4096];
    const void *arguments = packed;
    size_t bytes = 0;
    int place;   /* of a parameter, and its bytes in the lower half; 0: there are no more */
    if (idle) return SUCCESS;
    if (parameters && extra) return INVALID_VALUE;
    for (int i = 0; parameters && !interpreter.attribute(function, -1 - i, &place) && place; i++) {
        memcpy(packed + (place >> 16), parameters[i], place & 0xffff);
        bytes = (place >> 16) + (place & 0xffff);
    }
    for (; extra && *extra; extra += 2) {
        if (*extra == (void *)1) arguments = extra[1];
        else if (*extra == (void *)2) bytes = *(size_t *)extra[1];
        else return INVALID_VALUE;
    }
    for (int i = 0; i < 6; i++)
        if (!dims[i]) return INVALID_VALUE;
    unsigned threads = dims[3] * dims[4] * dims[5];
    if (threads > 1024 || dims[6] > 232448) return INVALID_VALUE;
    /* 0: the interpreter does not say how many its registers suffice for. */
    int most = 0;
    CUresult asked = interpreter.attribute(function, 0, &most);
    if (asked) return asked;
    if (most && threads > (unsigned)most) return LAUNCH_OUT_OF_RESOURCES;
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    pthread_mutex_unlock(&big);
    if (status) return status;
    struct work *work = new_work(run, A_KERNEL);
    work->numbers[0] = function, work->numbers[8] = bytes, work->numbers[9] = together;
    for (int i = 0; i < 7; i++) work->numbers[1 + i] = dims[i];
    work->pointers[0] = malloc(bytes + 1);
    memcpy(work->pointers[0], arguments, bytes);
    work->drop = drop;
    return submit(stream, work, 0);
}

EXPORT CUresult cuLaunchKernel(
    uint64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, uint64_t stream, void **parameters, void **extra)
{
    ENTER(1);
    unsigned dims[] = {gx, gy, gz, bx, by, bz, shared};
    return launch(function, dims, stream, parameters, extra, 0);
}

struct attribute { int id, padding, cooperative, others[15]; };

struct configuration {
    unsigned grid[3], block[3], shared;
    uint64_t stream;
    struct attribute *attributes;
    unsigned count;
};

EXPORT CUresult cuLaunchKernelEx(
    const struct configuration *c, uint64_t function, void **parameters, void **extra)
{
    ENTER(1);
    int together = 0;
    if (idle) return SUCCESS;
    unsigned blocks = c->grid[0] * c->grid[1] * c->grid[2];
    for (unsigned i = 0; i < c->count; i++)
        if (c->attributes[i].id == 2) together = c->attributes[i].cooperative;
    if (together && blocks > 4 * 2048 / (c->block[0] * c->block[1] * c->block[2]))
        return COOPERATIVE_TOO_LARGE;
    return launch(
        function,
        (unsigned[]){c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared},
        c->stream, parameters, extra, together);
}

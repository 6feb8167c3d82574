/* The code that the stand-in knows: the kernels of the conformance suite, in C. An image is an ELF
 * header and the text below. Code objects of AMD's GPUs are taken too: they have kernels whose names
 * stand in them, and launches of these are written down, and do nothing. */
#define _GNU_SOURCE
#include "hip.h"

#define TEXT "kernels of the conformance suite"

struct module { uint64_t channel; uint32_t number; int live; const char *image; size_t bytes; };
struct function { struct module *module; int kernel; };

static const char *names[] = {"where", "types", "scale", "chain", "stop"};
enum { WHERE, TYPES, SCALE, CHAIN, STOP, KERNELS };

static CUresult load(const void *image, void *log, size_t bytes, uint64_t *module)
{
    (void)log, (void)bytes;
    const char *bytes_of = image;
    if (memcmp(image, "\177ELF", 4)) return INVALID_IMAGE;
    struct module *made = calloc(1, sizeof *made);
    if (strcmp(bytes_of + 64, TEXT)) {
        uint64_t table = *(uint64_t *)(bytes_of + 40);
        made->image = image;
        made->bytes = table + *(uint16_t *)(bytes_of + 58) * *(uint16_t *)(bytes_of + 60);
    }
    made->live = 1;
    *module = (uint64_t)made;
    return SUCCESS;
}

static CUresult unload(uint64_t module)
{
    ((struct module *)module)->live = 0;   /* kept: what runs yet may fail yet */
    return SUCCESS;
}

static CUresult find(uint64_t module, const char *name, uint64_t *function)
{
    const struct module *of = (const struct module *)module;
    char descriptor[512];
    size_t length = snprintf(descriptor, sizeof descriptor, "%s.kd", name) + 1;
    int found = of->image && memmem(of->image, of->bytes, descriptor, length);
    for (int i = 0; i <= KERNELS; i++)
        if (i == KERNELS ? found : !of->image && !strcmp(names[i], name)) {
            struct function *made = malloc(sizeof *made);
            *made = (struct function){(struct module *)module, i};
            *function = (uint64_t)made;
            return SUCCESS;
        }
    return NOT_FOUND;
}

static CUresult symbol(uint64_t module, const char *name, uint64_t *address, uint64_t *bytes)
{
    struct module *of = (struct module *)module;
    int channel = !strcmp(name, "haulage_channel");
    if (of->image && !memmem(of->image, of->bytes, name, strlen(name) + 1)) return NOT_FOUND;
    if (!channel && strcmp(name, "haulage_module")) return NOT_FOUND;
    *address = channel ? (uint64_t)&of->channel : (uint64_t)&of->number;
    *bytes = channel ? 8 : 4;
    return SUCCESS;
}

static int64_t whole(const char *arguments, int at, int bytes, int is_signed)
{
    int64_t value = 0;
    memcpy(&value, arguments + at, bytes);
    int unused = 64 - 8 * bytes;
    return is_signed ? (int64_t)((uint64_t)value << unused) >> unused : value;
}

static void where(uint32_t *out, const unsigned *d)
{
    for (unsigned gz = 0; gz < d[2]; gz++)
    for (unsigned gy = 0; gy < d[1]; gy++)
    for (unsigned gx = 0; gx < d[0]; gx++)
    for (unsigned bz = 0; bz < d[5]; bz++)
    for (unsigned by = 0; by < d[4]; by++)
    for (unsigned bx = 0; bx < d[3]; bx++) {
        uint32_t row[] = {gx, gy, gz, bx, by, bz, d[0], d[1], d[2], d[3], d[4], d[5]};
        memcpy(out, row, sizeof row);
        out += 12;
    }
}

static void types(const char *a)
{
    static const int places[] = {16, 17, 18, 20, 24, 28, 32, 40}, sizes[] = {1, 1, 2, 2, 4, 4, 8, 8};
    int64_t *ints = *(int64_t **)a;
    double *floats = *(double **)(a + 8);
    float narrow;
    for (int i = 0; i < 8; i++) ints[i] = whole(a, places[i], sizes[i], i % 2 == 0);
    memcpy(&narrow, a + 48, 4);
    floats[0] = narrow;
    memcpy(floats + 1, a + 56, 8);
}

static void scale(const char *a, uint64_t threads)
{
    float *x = *(float **)a, factor;
    uint64_t n = *(uint64_t *)(a + 8);
    memcpy(&factor, a + 16, 4);
    for (uint64_t i = 0; i < threads && i < n; i++) x[i] *= factor;
}

static void chain(const char *arguments)
{
    int64_t a[4];
    memcpy(a, arguments, sizeof a);
    for (volatile int64_t i = 0; i < a[3]; i++);
    int64_t *x = (int64_t *)a[0];
    *x = (int64_t)((uint64_t)a[1] * (uint64_t)*x + (uint64_t)a[2]);
}

static void stop(const struct module *module, const char *arguments, uint64_t blocks)
{
    int64_t *x = *(int64_t **)arguments;
    uint32_t fault = *(uint64_t *)(arguments + 8);
    for (uint64_t g = 0; g < blocks; g++) x[g] = 1;
    if (blocks < 2 || !module->channel) return;
    uint32_t *slot = (uint32_t *)(module->channel + 64 + 4 * (uint64_t)module->number);
    if (*slot < fault) *slot = fault;
    __atomic_store_n((uint32_t *)module->channel, 1, __ATOMIC_SEQ_CST);
}

static CUresult launch(uint64_t handle, const unsigned *d, const void *arguments, size_t bytes, int together)
{
    static const size_t expected[] = {8, 64, 20, 32, 16};
    struct function *function = (struct function *)handle;
    uint64_t blocks = (uint64_t)d[0] * d[1] * d[2];
    (void)together;
    if (function->kernel == KERNELS) return SUCCESS;
    if (bytes != expected[function->kernel]) {
        misused("bytes of arguments");
        return 719;
    }
    switch (function->kernel) {
    case WHERE: where(*(uint32_t **)arguments, d); break;
    case TYPES: types(arguments); break;
    case SCALE: scale(arguments, blocks * d[3] * d[4] * d[5]); break;
    case CHAIN: chain(arguments); break;
    default: stop(function->module, arguments, blocks);
    }
    return SUCCESS;
}

/* 0: threads of a block; 4: registers; -1: bytes of the parameters. */
static CUresult attribute(uint64_t handle, int attribute, int *value)
{
    (void)handle;
    *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == -1 ? 32 : 0;
    return SUCCESS;
}

void double_interpreter(const void *);

static const struct { void *load, *unload, *function, *symbol, *launch, *attribute; } table = {
    load, unload, find, symbol, launch, attribute,
};

__attribute__((constructor)) static void know(void) { double_interpreter(&table); }

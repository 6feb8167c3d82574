/* The code that the stand-in knows: the kernels of the conformance suite and the back end's own ones,
 * in C. An image of the former is an ELF header and the text below. Code objects of AMD's GPUs are
 * taken too: what they have of memory is put somewhere, their variables and kernels are found by their
 * symbols, and of the kernels the back end's own are run by their names; launches of others are
 * written down, and do nothing. */
#define _GNU_SOURCE
#include "hip.h"

#include <elf.h>

#define TEXT "kernels of the conformance suite"

/* `memory` has what a code object loads, `image` is that, or NULL. */
struct module { uint64_t channel; uint32_t number; int live; const char *image; char *memory; };
struct function { struct module *module; int kernel; };

static const char *names[] = {"where", "types", "scale", "chain", "stop"};
enum { WHERE, TYPES, SCALE, CHAIN, STOP, COPY, FILL = COPY + 17, UNKNOWN = FILL + 17 };

static CUresult load(const void *image, void *log, size_t bytes, uint64_t *module)
{
    (void)log, (void)bytes;
    const Elf64_Ehdr *header = image;
    if (memcmp(image, ELFMAG, SELFMAG)) return INVALID_IMAGE;
    struct module *made = calloc(1, sizeof *made);
    if (strcmp((const char *)image + sizeof *header, TEXT)) {
        const Elf64_Phdr *parts = (void *)((char *)image + header->e_phoff);
        size_t end = 0;
        for (int i = 0; i < header->e_phnum; i++)
            if (parts[i].p_type == PT_LOAD && parts[i].p_vaddr + parts[i].p_memsz > end)
                end = parts[i].p_vaddr + parts[i].p_memsz;
        made->image = image;
        made->memory = calloc(1, end);
        for (int i = 0; i < header->e_phnum; i++)
            if (parts[i].p_type == PT_LOAD)
                memcpy(made->memory + parts[i].p_vaddr, (char *)image + parts[i].p_offset, parts[i].p_filesz);
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

/* In a code object's table of symbols that others see. */
static const Elf64_Sym *exported(const struct module *of, const char *name)
{
    const Elf64_Ehdr *header = (const void *)of->image;
    const Elf64_Shdr *sections = (const void *)(of->image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const Elf64_Sym *symbols = (const void *)(of->image + sections[i].sh_offset);
        const char *texts = of->image + sections[sections[i].sh_link].sh_offset;
        for (size_t n = 0; n < sections[i].sh_size / sizeof *symbols; n++)
            if (!strcmp(texts + symbols[n].st_name, name)) return symbols + n;
    }
    return NULL;
}

static int own_kernel(const char *name)
{
    int size;
    if (sscanf(name, "haulage_copy_%d", &size) == 1 && size <= 16) return COPY + size;
    if (sscanf(name, "haulage_fill_%d", &size) == 1 && size <= 16) return FILL + size;
    return UNKNOWN;
}

static CUresult find(uint64_t module, const char *name, uint64_t *function)
{
    const struct module *of = (const struct module *)module;
    int kernel = -1;
    if (of->image) {
        char descriptor[512];
        snprintf(descriptor, sizeof descriptor, "%s.kd", name);
        if (exported(of, descriptor)) kernel = own_kernel(name);
    } else
        for (int i = 0; i < COPY; i++)
            if (!strcmp(names[i], name)) kernel = i;
    if (kernel < 0) return NOT_FOUND;
    struct function *made = malloc(sizeof *made);
    *made = (struct function){(struct module *)module, kernel};
    *function = (uint64_t)made;
    return SUCCESS;
}

static CUresult symbol(uint64_t module, const char *name, uint64_t *address, uint64_t *bytes)
{
    struct module *of = (struct module *)module;
    if (of->image) {
        const Elf64_Sym *found = exported(of, name);
        if (!found || ELF64_ST_TYPE(found->st_info) != STT_OBJECT) return NOT_FOUND;
        *address = (uint64_t)(of->memory + found->st_value);
        *bytes = found->st_size;
        return SUCCESS;
    }
    int channel = !strcmp(name, CHANNEL_NAME);
    if (!channel && strcmp(name, MODULE_NAME)) return NOT_FOUND;
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
    uint32_t *slot = (uint32_t *)(module->channel + FAULTS_AT + 4 * (uint64_t)module->number);
    if (*slot < fault) *slot = fault;
    __atomic_store_n((uint32_t *)module->channel, 1, __ATOMIC_SEQ_CST);
}

struct copied {
    uint64_t target, source;
    uint32_t total, axes, sizes[8];
    int64_t to[8], of[8];
};

static void copy(const struct copied *c, int size)
{
    for (uint32_t i = 0; i < c->total; i++) {
        uint64_t to = c->target, of = c->source, rest = i;
        for (uint32_t axis = 0; axis < c->axes; axis++) {
            int64_t place = rest % c->sizes[axis];
            rest /= c->sizes[axis];
            to += place * c->to[axis], of += place * c->of[axis];
        }
        if (to % size || of % size) misused("alignment of a copy");
        memcpy((void *)to, (void *)of, size);
    }
}

struct filled { uint64_t target; uint32_t total, units; char value[16]; };

static void fill(const struct filled *f, int size)
{
    if (f->target % size) misused("alignment of a fill");
    size_t step = (size_t)size * f->units;
    for (uint32_t i = 0; i < f->total; i++) memcpy((char *)f->target + i * step, f->value, step);
}

static CUresult launch(uint64_t handle, const unsigned *d, const void *arguments, size_t bytes, int together)
{
    static const size_t of_suite[] = {8, 64, 20, 32, 16};
    struct function *function = (struct function *)handle;
    uint64_t blocks = (uint64_t)d[0] * d[1] * d[2];
    int kernel = function->kernel;
    (void)together;
    if (kernel == UNKNOWN) return SUCCESS;
    if (bytes != (kernel < COPY ? of_suite[kernel]
                  : kernel < FILL ? sizeof(struct copied) : sizeof(struct filled))) {
        misused("bytes of arguments");
        return 719;
    }
    switch (kernel) {
    case WHERE: where(*(uint32_t **)arguments, d); break;
    case TYPES: types(arguments); break;
    case SCALE: scale(arguments, blocks * d[3] * d[4] * d[5]); break;
    case CHAIN: chain(arguments); break;
    case STOP: stop(function->module, arguments, blocks); break;
    default:
        if (d[3] != 256) misused("threads of a block");
        if (kernel < FILL) copy(arguments, kernel - COPY);
        else fill(arguments, kernel - FILL);
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

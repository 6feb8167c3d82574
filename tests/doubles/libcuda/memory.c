/* Memory: of the device, of the host, managed; reserved addresses; copies and fills. */
#define _GNU_SOURCE
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where addresses of the device lie; none is given out twice. */
#define AREA_BYTES ((size_t)1 << 40)
#define PAGE ((size_t)4096)
#define GRANULARITY ((size_t)2 << 20)

static uint64_t area, area_used;

struct piece {
    uint64_t start, size, pages;    /* `pages`: the size that is mapped */
    enum kind kind;
    int device, file;
    int process, its_file, opened;  /* of another process: where it is there, how often it is open */
    struct piece *next;
};
static struct piece *pieces;

struct chunk { size_t size; int device, file, references, named; };   /* of cuMemCreate */

/* `devices`: bits of those that were let use it. */
struct mapping { uint64_t start, size; struct chunk *chunk; uint32_t devices; struct mapping *next; };
static struct mapping *mappings;

static uint64_t reserve_addresses(size_t bytes, size_t alignment)
{
    if (!area) {
        /* Far from where the process's own memory comes to lie: code on both sides of this area
           could not reach one another, as LLVM's loader wants. */
        void *got = mmap((void *)0x200000000000, AREA_BYTES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        area = ((uint64_t)got + GRANULARITY - 1) & -GRANULARITY;
        area_used = area;
    }
    uint64_t start = (area_used + alignment - 1) & -alignment;
    if (bytes > area + AREA_BYTES - GRANULARITY - start) return 0;
    area_used = start + bytes;
    return start;
}

static int new_file(size_t bytes)
{
    int file = memfd_create("libcuda double", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, bytes)) close(file), file = -1;
    return file;
}

static void lay(uint64_t start, size_t bytes, int file)
{
    mmap((void *)start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
}

static void clear_away(uint64_t start, size_t bytes)
{
    mmap((void *)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}

static struct piece *add_piece(uint64_t start, size_t size, enum kind kind)
{
    struct piece *made = calloc(1, sizeof *made);
    made->start = start, made->size = size, made->kind = kind, made->file = -1;
    made->device = current->device;
    made->next = pieces, pieces = made;
    return made;
}

static struct piece *take_piece(uint64_t start, enum kind kind, enum kind other)
{
    for (struct piece **at = &pieces; *at; at = &(*at)->next)
        if ((*at)->start == start && ((*at)->kind == kind || (*at)->kind == other)) {
            struct piece *found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

static int is_mapped(uint64_t start, size_t bytes)
{
    uint64_t stop = start + bytes;
    while (start < stop) {
        struct mapping *at = mappings;
        while (at && !(at->devices && at->start <= start && start < at->start + at->size))
            at = at->next;
        if (!at) return 0;
        start = at->start + at->size;
    }
    return 1;
}

/* An attribute of devices. */
#define PAGEABLE_ACCESS 88

enum kind kind_of(uint64_t address, size_t bytes, uint64_t *on_device)
{
    enum kind found = PAGEABLE;
    pthread_mutex_lock(&big);
    for (struct piece *at = pieces; at && !found; at = at->next)
        if (at->start <= address && address + bytes <= at->start + at->size) found = at->kind;
    if (!found && is_mapped(address, bytes)) found = DEVICE;
    pthread_mutex_unlock(&big);
    if (on_device) *on_device = found ? address : 0;
    return found;
}

/* Whether a context's device reaches memory, if that is a device's: the address tells nothing. */
static int is_let(struct context *context, uint64_t address)
{
    int let = 1;
    pthread_mutex_lock(&big);
    for (struct piece *at = pieces; at; at = at->next)
        if (at->kind == DEVICE && at->start <= address && address < at->start + at->size)
            let = at->device == context->device || context->peers >> at->device & 1;
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->start <= address && address < at->start + at->size)
            let = at->devices >> context->device & 1;
    pthread_mutex_unlock(&big);
    return let;
}

/* Whether the driver alone knows how a context's device comes to memory: what it was not let use,
 * and is no allocation of the driver's. */
static int is_out_of_reach(struct context *context, uint64_t address)
{
    int found = 0;
    pthread_mutex_lock(&big);
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->start <= address && address < at->start + at->size)
            found = !(at->devices >> context->device & 1);
    pthread_mutex_unlock(&big);
    return found;
}

int is_reachable(uint64_t address, size_t bytes)
{
    return kind_of(address, bytes, NULL) || !area || address + bytes <= area
           || address >= area + AREA_BYTES;
}

/* ---- allocations ---------------------------------------------------------------------------- */

EXPORT CUresult cuMemGetInfo(size_t *free_, size_t *total)
{
    ENTER(1);
    *free_ = total_memory - devices[current->device].used, *total = total_memory;
    return SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *made, size_t bytes)
{
    ENTER(1);
    if (!bytes) return INVALID_VALUE;
    if (idle) return (*made = (uint64_t)malloc(bytes)) ? SUCCESS : OUT_OF_MEMORY;
    size_t pages = (bytes + PAGE - 1) & -PAGE;
    pthread_mutex_lock(&big);
    uint64_t start = 0;
    int file = -1;
    if (pages >= bytes && pages <= total_memory - devices[current->device].used) {
        file = new_file(pages);
        start = file < 0 ? 0 : reserve_addresses(pages, PAGE);
    }
    if (start) {
        lay(start, pages, file);
        struct piece *piece = add_piece(start, bytes, DEVICE);
        piece->pages = pages, piece->file = file;
        devices[current->device].used += pages;
    }
    pthread_mutex_unlock(&big);
    *made = start;
    return start ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *made, size_t bytes, unsigned flags)
{
    ENTER(1);
    if (!bytes || (flags != 1 && flags != 2)) return INVALID_VALUE;
    if (bytes > total_memory) return OUT_OF_MEMORY;
    size_t pages = (bytes + PAGE - 1) & -PAGE;
    *made = (uint64_t)mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_lock(&big);
    add_piece(*made, bytes, MANAGED)->pages = pages;
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    wait_for_all(current);
    struct piece *piece = take_piece(address, DEVICE, MANAGED);
    if (piece && piece->kind == DEVICE) {
        clear_away(piece->start, piece->pages);
        close(piece->file);
        devices[piece->device].used -= piece->pages;
    } else if (piece)
        munmap((void *)piece->start, piece->pages);
    else if (idle)
        free((void *)address);
    pthread_mutex_unlock(&big);
    free(piece);
    return piece || idle ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemHostAlloc(void **made, size_t bytes, unsigned flags)
{
    ENTER(1);
    if (!bytes || flags > 7) return INVALID_VALUE;
    size_t pages = (bytes + PAGE - 1) & -PAGE;
    if (bytes > (size_t)1 << 40) return OUT_OF_MEMORY;
    *made = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*made == MAP_FAILED) return OUT_OF_MEMORY;
    pthread_mutex_lock(&big);
    add_piece((uint64_t)*made, bytes, PINNED)->pages = pages;
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *address)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    struct piece *piece = take_piece((uint64_t)address, PINNED, PINNED);
    if (piece) munmap(address, piece->pages);
    pthread_mutex_unlock(&big);
    free(piece);
    return piece ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemHostRegister(void *address, size_t bytes, unsigned flags)
{
    CUresult status = SUCCESS;
    ENTER(1);
    if (!bytes || flags > 15) return INVALID_VALUE;
    pthread_mutex_lock(&big);
    uint64_t start = (uint64_t)address;
    for (struct piece *at = pieces; at; at = at->next)
        if (at->start < start + bytes && start < at->start + at->size) status = HOST_REGISTERED;
    if (!status) add_piece(start, bytes, REGISTERED);
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuMemHostUnregister(void *address)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    struct piece *piece = take_piece((uint64_t)address, REGISTERED, REGISTERED);
    pthread_mutex_unlock(&big);
    free(piece);
    return piece ? SUCCESS : HOST_NOT_REGISTERED;
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *found, void *address, unsigned flags)
{
    ENTER(1);
    enum kind kind = kind_of((uint64_t)address, 1, found);
    return flags || kind < PINNED ? INVALID_VALUE : SUCCESS;
}

EXPORT CUresult cuPointerGetAttributes(
    unsigned count, const int *attributes, void **into, CUdeviceptr address)
{
    ENTER(0);
    uint64_t on_device;
    enum kind kind = kind_of(address, 1, &on_device);
    int device = -2;
    pthread_mutex_lock(&big);
    for (struct piece *at = pieces; at; at = at->next)
        if (at->start <= address && address < at->start + at->size) device = at->device;
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->start <= address && address < at->start + at->size) device = at->chunk->device;
    pthread_mutex_unlock(&big);
    /* A device that takes page faults reaches all of the host's memory. It is of no kind yet. */
    if (!kind && of_devices[PAGEABLE_ACCESS]) on_device = address;
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case 2:
            *(unsigned *)into[i] = !kind ? 0 : kind == PINNED || kind == REGISTERED ? 1 : 2;
            break;
        case 3: *(uint64_t *)into[i] = on_device; break;
        case 4: *(uint64_t *)into[i] = kind == DEVICE ? 0 : on_device; break;
        case 8: *(unsigned *)into[i] = kind == MANAGED; break;
        case 9: *(int *)into[i] = device; break;
        default: return INVALID_VALUE;
        }
    return SUCCESS;
}

/* What the current device may do with memory: 3, read and write. */
EXPORT CUresult cuPointerGetAttribute(unsigned *into, int attribute, CUdeviceptr address)
{
    ENTER(1);
    if (attribute != 16) return INVALID_VALUE;
    *into = is_let(current, address) ? 3 : 0;
    return kind_of(address, 1, NULL) ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    CUresult status = NOT_FOUND;
    ENTER(1);
    pthread_mutex_lock(&big);
    for (struct piece *at = pieces; at; at = at->next)
        if (at->start <= address && address < at->start + at->size) {
            *start = at->start, *bytes = at->size;
            status = SUCCESS;
        }
    pthread_mutex_unlock(&big);
    return status;
}

/* ---- managed memory: hints ------------------------------------------------------------------ */

struct location { int type, id; };

EXPORT CUresult cuMemPrefetchAsync(
    CUdeviceptr address, size_t bytes, struct location place, unsigned flags, uint64_t stream)
{
    ENTER(1);
    (void)stream;
    if (flags || place.type < 1 || place.type > 2) return INVALID_VALUE;
    if (place.type == 1 && place.id >= device_count) return INVALID_DEVICE;
    return kind_of(address, bytes, NULL) == MANAGED ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, struct location place)
{
    ENTER(1);
    if (advice < 1 || advice > 6 || place.type < 1 || place.type > 2) return INVALID_VALUE;
    return kind_of(address, bytes, NULL) == MANAGED ? SUCCESS : INVALID_VALUE;
}

/* ---- addresses first, memory later ----------------------------------------------------------- */

struct properties {
    int type, handles;
    struct location place;
    void *windows;
    unsigned char flags[8];
};

EXPORT CUresult cuMemGetAllocationGranularity(
    size_t *bytes, const struct properties *wanted, int option)
{
    ENTER(0);
    (void)option;
    *bytes = GRANULARITY;
    return wanted->type == 1 && wanted->place.type == 1 ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemAddressReserve(
    CUdeviceptr *made, size_t bytes, size_t alignment, CUdeviceptr wish, uint64_t flags)
{
    ENTER(1);
    (void)wish;
    if (flags || !bytes || bytes % GRANULARITY) return INVALID_VALUE;
    pthread_mutex_lock(&big);
    *made = reserve_addresses(bytes, alignment > GRANULARITY ? alignment : GRANULARITY);
    pthread_mutex_unlock(&big);
    return *made ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    CUresult status = SUCCESS;
    ENTER(1);
    pthread_mutex_lock(&big);
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->start < address + bytes && address < at->start + at->size) status = INVALID_VALUE;
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuMemCreate(
    struct chunk **made, size_t bytes, const struct properties *wanted, uint64_t flags)
{
    ENTER(1);
    if (flags || !bytes || bytes % GRANULARITY || wanted->type != 1 || wanted->place.type != 1)
        return INVALID_VALUE;
    struct device *device = &devices[wanted->place.id];
    pthread_mutex_lock(&big);
    int file = bytes > total_memory - device->used ? -1 : new_file(bytes);
    if (file >= 0) device->used += bytes;
    pthread_mutex_unlock(&big);
    if (file < 0) return OUT_OF_MEMORY;
    *made = calloc(1, sizeof **made);
    (*made)->size = bytes, (*made)->device = wanted->place.id, (*made)->file = file;
    (*made)->references = 1, (*made)->named = wanted->handles;
    return SUCCESS;
}

static void let_go(struct chunk *chunk)
{
    if (--chunk->references) return;
    close(chunk->file);
    devices[chunk->device].used -= chunk->size;
    free(chunk);
}

EXPORT CUresult cuMemRelease(struct chunk *chunk)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    let_go(chunk);
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

EXPORT CUresult cuMemMap(
    CUdeviceptr address, size_t bytes, size_t offset, struct chunk *chunk, uint64_t flags)
{
    ENTER(1);
    if (offset || flags || bytes != chunk->size || address < area || is_mapped(address, 1))
        return INVALID_VALUE;
    pthread_mutex_lock(&big);
    struct mapping *made = calloc(1, sizeof *made);
    made->start = address, made->size = bytes, made->chunk = chunk;
    chunk->references++;
    made->next = mappings, mappings = made;
    pthread_mutex_unlock(&big);
    return SUCCESS;
}

struct access { struct location place; int flags; };

EXPORT CUresult cuMemSetAccess(
    CUdeviceptr address, size_t bytes, const struct access *wanted, size_t count)
{
    size_t covered = 0;
    ENTER(1);
    uint32_t let = 0;
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].place.type != 1 || wanted[i].flags != 3) return INVALID_VALUE;
        let |= 1u << wanted[i].place.id;
    }
    pthread_mutex_lock(&big);
    for (struct mapping *at = mappings; at; at = at->next)
        if (address <= at->start && at->start + at->size <= address + bytes) {
            covered += at->size;
            if (!at->devices) lay(at->start, at->size, at->chunk->file);
            at->devices |= let;
        }
    pthread_mutex_unlock(&big);
    return covered == bytes ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    size_t covered = 0;
    ENTER(1);
    pthread_mutex_lock(&big);
    for (struct mapping *at = mappings; at; at = at->next)
        if (address <= at->start && at->start + at->size <= address + bytes) covered += at->size;
    for (struct mapping **at = &mappings; covered == bytes && *at;)
        if (address <= (*at)->start && (*at)->start + (*at)->size <= address + bytes) {
            struct mapping *gone = *at;
            *at = gone->next;
            clear_away(gone->start, gone->size);
            let_go(gone->chunk);
            free(gone);
        } else
            at = &(*at)->next;
    pthread_mutex_unlock(&big);
    return covered == bytes ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(struct chunk **found, void *address)
{
    CUresult status = INVALID_VALUE;
    ENTER(0);
    pthread_mutex_lock(&big);
    for (struct mapping *at = mappings; at; at = at->next)
        if (at->start <= (uint64_t)address && (uint64_t)address < at->start + at->size) {
            *found = at->chunk;
            at->chunk->references++;
            status = SUCCESS;
        }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuMemExportToShareableHandle(
    int *file, struct chunk *chunk, int type, uint64_t flags)
{
    ENTER(1);
    if (type != 1 || flags || !(chunk->named & 1)) return INVALID_VALUE;
    *file = dup(chunk->file);
    return SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(struct chunk **made, void *file, int type)
{
    ENTER(1);
    int own = dup((int)(intptr_t)file);
    if (type != 1 || own < 0) return INVALID_VALUE;
    *made = calloc(1, sizeof **made);
    (*made)->size = lseek(own, 0, SEEK_END), (*made)->file = own, (*made)->references = 1;
    (*made)->device = current->device;
    devices[current->device].used += (*made)->size;
    return SUCCESS;
}

/* ---- other processes ------------------------------------------------------------------------- */

struct handle { int process, file; uint64_t size; char rest[48]; };

EXPORT CUresult cuIpcGetMemHandle(struct handle *made, CUdeviceptr address)
{
    CUresult status = INVALID_VALUE;
    ENTER(1);
    memset(made, 0, sizeof *made);
    pthread_mutex_lock(&big);
    for (struct piece *at = pieces; at; at = at->next)
        if (at->start == address && at->kind == DEVICE) {
            made->process = getpid(), made->file = at->file, made->size = at->size;
            status = SUCCESS;
        }
    pthread_mutex_unlock(&big);
    return status;
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *made, struct handle handle, unsigned flags)
{
    char path[64];
    ENTER(1);
    if (flags != 1 || handle.process == getpid()) return INVALID_CONTEXT;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
    FILE *opened = fopen(path, "r+");
    if (!opened) return INVALID_VALUE;
    size_t pages = (handle.size + PAGE - 1) & -PAGE;
    pthread_mutex_lock(&big);
    /* What is open already has the same address, and one use more. */
    struct piece *known = pieces;
    while (known && !(known->process == handle.process && known->its_file == handle.file)) known = known->next;
    if (!known) {
        uint64_t start = reserve_addresses(pages, PAGE);
        lay(start, pages, fileno(opened));
        known = add_piece(start, handle.size, DEVICE);
        known->pages = pages, known->process = handle.process, known->its_file = handle.file;
    }
    known->opened++;
    *made = known->start;
    pthread_mutex_unlock(&big);
    fclose(opened);
    return SUCCESS;
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    ENTER(1);
    pthread_mutex_lock(&big);
    CUresult status = INVALID_VALUE;
    for (struct piece *at = pieces; at; at = at->next)
        if (at->start == address && at->opened) {
            status = SUCCESS;
            if (--at->opened) break;
            clear_away(at->start, at->pages);
            free(take_piece(address, DEVICE, DEVICE));
            break;
        }
    pthread_mutex_unlock(&big);
    return status;
}

/* ---- copies and fills ------------------------------------------------------------------------ */

static void copy_box(struct work *work)
{
    uint64_t *n = work->numbers;   /* target, its pitches, source, its pitches, width, height, depth */
    struct context *context = work->pointers[0];   /* whose device copies; NULL: both sides' do */
    for (uint64_t z = 0; z < n[8]; z++)
        for (uint64_t y = 0; y < n[7]; y++) {
            uint64_t target = n[0] + z * n[2] + y * n[1], source = n[3] + z * n[5] + y * n[4];
            if (!is_reachable(target, n[6]) || !is_reachable(source, n[6])
                || (context && (is_out_of_reach(context, target)
                                || is_out_of_reach(context, source)))) {
                sticky = ILLEGAL_ADDRESS;
                return;
            }
            memmove((void *)target, (void *)source, n[6]);
        }
}

static CUresult copy_by(uint64_t handle, const uint64_t *numbers, int by_both)
{
    struct stream *stream;
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    pthread_mutex_unlock(&big);
    if (status) return status;
    /* Unlike the device, the caller sees a copy of pageable memory done. */
    int waits = !kind_of(numbers[0], 1, NULL) || !kind_of(numbers[3], 1, NULL);
    struct work *work = new_work(copy_box, A_COPY);
    memcpy(work->numbers, numbers, 9 * sizeof *numbers);
    work->pointers[0] = by_both ? NULL : stream->context;
    return submit(stream, work, waits && !stream->capturing);
}

static CUresult copy(uint64_t handle, const uint64_t *numbers) { return copy_by(handle, numbers, 0); }

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, uint64_t stream)
{
    ENTER(1);
    if (!bytes) return SUCCESS;
    return copy(stream, (uint64_t[]){to, 0, 0, from, 0, 0, bytes, 1, 1});
}

/* Between two devices, whether they reach each other or not. */
EXPORT CUresult cuMemcpyPeerAsync(
    CUdeviceptr to, struct context *target, CUdeviceptr from, struct context *source, size_t bytes,
    uint64_t stream)
{
    ENTER(1);
    if (!target || !source) return INVALID_CONTEXT;
    if (!bytes) return SUCCESS;
    return copy_by(stream, (uint64_t[]){to, 0, 0, from, 0, 0, bytes, 1, 1}, 1);
}

struct side2 { size_t x, y; int type; void *host; CUdeviceptr device; void *array; size_t pitch; };
struct copy2 { struct side2 from, to; size_t width, height; };

/* Where a side is: HOST says that it is pageable memory, or seems so; UNIFIED that the address tells.
   Nothing else is used. */
static CUresult side_at(int type, void *host, CUdeviceptr device, uint64_t *at)
{
    if (type != 1 && type != 4) return INVALID_VALUE;
    *at = type == 1 ? (uint64_t)(uintptr_t)host : device;
    return SUCCESS;
}

EXPORT CUresult cuMemcpy2DAsync(const struct copy2 *given, uint64_t stream)
{
    ENTER(1);
    struct copy2 c = *given;
    uint64_t to, from;
    if (side_at(c.from.type, c.from.host, c.from.device, &from)
        || side_at(c.to.type, c.to.host, c.to.device, &to)
        || c.from.pitch < c.width || c.to.pitch < c.width)
        return INVALID_VALUE;
    to += c.to.y * c.to.pitch + c.to.x;
    from += c.from.y * c.from.pitch + c.from.x;
    return copy(stream, (uint64_t[]){to, c.to.pitch, 0, from, c.from.pitch, 0, c.width, c.height, 1});
}

struct side3 {
    size_t x, y, z, level;
    int type;
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
};
struct copy3 { struct side3 from, to; size_t width, height, depth; };

EXPORT CUresult cuMemcpy3DAsync(const struct copy3 *given, uint64_t stream)
{
    ENTER(1);
    struct copy3 c = *given;
    uint64_t to, from;
    if (side_at(c.from.type, c.from.host, c.from.device, &from)
        || side_at(c.to.type, c.to.host, c.to.device, &to)
        || c.from.pitch < c.width || c.to.pitch < c.width
        || c.from.height < c.height || c.to.height < c.height || c.from.x || c.to.x)
        return INVALID_VALUE;
    return copy(stream, (uint64_t[]){
        to, c.to.pitch, c.to.pitch * c.to.height, from, c.from.pitch,
        c.from.pitch * c.from.height, c.width, c.height, c.depth});
}

static void fill(struct work *work)
{
    uint64_t *n = work->numbers;   /* target, bytes of the value, the value, how often */
    if (kind_of(n[0], n[1] * n[3], NULL) == PAGEABLE) {
        sticky = ILLEGAL_ADDRESS;
        return;
    }
    for (uint64_t i = 0; i < n[3]; i++) memcpy((char *)n[0] + i * n[1], n + 2, n[1]);
}

static CUresult set(uint64_t to, uint64_t size, uint64_t value, uint64_t count, uint64_t handle)
{
    struct stream *stream;
    if (to % size) return INVALID_VALUE;
    pthread_mutex_lock(&big);
    CUresult status = find_stream(handle, &stream);
    pthread_mutex_unlock(&big);
    if (status) return status;
    struct work *work = new_work(fill, A_FILL);
    memcpy(work->numbers, (uint64_t[]){to, size, value, count}, 4 * sizeof value);
    return submit(stream, work, 0);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, uint64_t stream)
{
    ENTER(1);
    return set(to, 1, value, count, stream);
}

EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, uint64_t stream)
{
    ENTER(1);
    return set(to, 2, value, count, stream);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, uint64_t stream)
{
    ENTER(1);
    return set(to, 4, value, count, stream);
}

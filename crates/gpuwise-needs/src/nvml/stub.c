/* A stand-in for libnvidia-ml.so.1: two H100 that can be cut, kept in a file that STUB_NVML names, so that they are
 * the same for one program after the other, as a machine's are. It knows what the driver documents of MIG, and shares
 * no code with what is tested by it. A file STUB_NVML.fault with a function's name and a code lets that one fail. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, IN_USE = 19, NO_ROOM = 23, MISMATCH = 25 };
enum { GPUS = 2, MOST = 8 };
typedef unsigned int u32;
typedef void *handle;

/* What a board has: numbers of nvml.h, identifiers and names as H100s report them. */
static const struct { u32 number, id, compute, size, most, units; uint64_t mib; const char *name; u32 starts[8]; u32 count; } PROFILES[] = {
    {0, 19, 1, 1, 7, 16, 9984, "MIG 1g.10gb", {0, 1, 2, 3, 4, 5, 6}, 7},
    {9, 15, 1, 2, 4, 26, 20096, "MIG 1g.20gb", {0, 2, 4, 6}, 4},
    {1, 14, 2, 2, 3, 32, 20096, "MIG 2g.20gb", {0, 2, 4}, 3},
    {2, 9, 3, 4, 2, 60, 40448, "MIG 3g.40gb", {0, 4}, 2},
    {3, 5, 4, 4, 1, 64, 40448, "MIG 4g.40gb", {0}, 1},
    {4, 0, 7, 8, 1, 132, 81152, "MIG 7g.80gb", {0}, 1},
};
#define COUNT (sizeof PROFILES / sizeof *PROFILES)

struct part { u32 there, profile, start, computed, serial; };
struct board { u32 mode, pending; struct part parts[MOST]; };
static struct { u32 serial; struct board boards[GPUS]; } state;
static int file = -1;

static int fault(const char *name) {
    char path[4096], seen[128];
    int code = 0;
    snprintf(path, sizeof path, "%s.fault", getenv("STUB_NVML"));
    FILE *text = fopen(path, "r");
    if (!text) return 0;
    int read = fscanf(text, "%127s %d", seen, &code);
    fclose(text);
    return read == 2 && !strcmp(seen, name) ? code : 0;
}
static void enter(void) {
    const char *path = getenv("STUB_NVML");
    file = open(path ? path : "/dev/null", O_RDWR | O_CREAT, 0600);
    flock(file, LOCK_EX);
    memset(&state, 0, sizeof state);
    if (read(file, &state, sizeof state) != sizeof state) {
        /* New: MIG is on on the second, off on the first. */
        memset(&state, 0, sizeof state);
        state.boards[1].mode = state.boards[1].pending = 1;
    }
}
static int leave(int code) {
    lseek(file, 0, SEEK_SET);
    if (write(file, &state, sizeof state) != sizeof state) code = 999;
    close(file);
    return code;
}
#define ENTER(name) do { int f = fault(name); if (f) return f; enter(); } while (0)

static handle make(u32 kind, u32 gpu, u32 at) { return (handle)(uintptr_t)(kind * 0x10000 + gpu * 0x100 + at + 1); }
static u32 kind_of(handle h) { return (u32)((uintptr_t)h / 0x10000); }
static u32 gpu_of(handle h) { return (u32)((uintptr_t)h / 0x100) & 0xff; }
static u32 at_of(handle h) { return (u32)((uintptr_t)h & 0xff) - 1; }
static struct board *board_of(handle h) { return &state.boards[gpu_of(h)]; }
static struct part *part_of(handle h) { return &board_of(h)->parts[at_of(h)]; }
enum { DEVICE = 1, SLICE, PART, COMPUTE };

static int profile_at(u32 id) {
    for (u32 at = 0; at < COUNT; at++) if (PROFILES[at].id == id) return (int)at;
    return -1;
}

int nvmlInit_v2(void) { return getenv("STUB_NVML") ? OK : 9; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *text, u32 length) { snprintf(text, length, "570.00.00"); return OK; }
int nvmlDeviceGetCount_v2(u32 *count) { *count = GPUS; return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, handle *out) {
    if (index >= GPUS) return INVALID;
    *out = make(DEVICE, index, 0);
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *out) {
    u32 gpu;
    if (sscanf(uuid, "GPU-%08x-", &gpu) != 1) return INVALID;
    if (gpu >= GPUS) return NOT_FOUND;
    *out = make(DEVICE, gpu, 0);
    return OK;
}
int nvmlDeviceGetName(handle h, char *text, u32 length) { (void)h; snprintf(text, length, "NVIDIA H100 80GB HBM3"); return OK; }
int nvmlDeviceGetUUID(handle h, char *text, u32 length) {
    if (kind_of(h) == DEVICE) snprintf(text, length, "GPU-%08x-0000-0000-0000-000000000000", gpu_of(h));
    else {
        enter();
        snprintf(text, length, "MIG-%08x-0000-0000-0000-%012x", gpu_of(h), part_of(h)->serial);
        leave(OK);
    }
    return OK;
}
struct memory { u32 version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(handle h, struct memory *out) {
    (void)h;
    if (out->version != (sizeof *out | 2u << 24)) return MISMATCH;
    out->total = 81559ull << 20;
    out->reserved = out->used = 0;
    out->free = out->total;
    return OK;
}

int nvmlDeviceGetMigMode(handle h, u32 *current, u32 *pending) {
    ENTER("nvmlDeviceGetMigMode");
    *current = board_of(h)->mode;
    *pending = board_of(h)->pending;
    return leave(OK);
}
int nvmlDeviceSetMigMode(handle h, u32 mode, u32 *activation) {
    int code = fault("activation");
    ENTER("nvmlDeviceSetMigMode");
    struct board *board = board_of(h);
    *activation = (u32)code;
    for (u32 at = 0; at < MOST; at++) if (board->parts[at].there) return leave(IN_USE);
    board->pending = mode;
    if (!code) board->mode = mode;
    return leave(OK);
}

struct profile { u32 version, id, p2p, slices, instances, units, copies, decoders, encoders, jpegs, ofas; unsigned long long mib; char name[96]; };
int nvmlDeviceGetGpuInstanceProfileInfoV(handle h, u32 number, struct profile *out) {
    (void)h;
    int code = fault("nvmlDeviceGetGpuInstanceProfileInfoV");
    if (code) return code;
    if (out->version != (sizeof *out | 2u << 24)) return MISMATCH;
    if (number > 17) return INVALID;
    for (u32 at = 0; at < COUNT; at++)
        if (PROFILES[at].number == number) {
            out->id = PROFILES[at].id;
            out->slices = PROFILES[at].compute;
            out->instances = PROFILES[at].most;
            out->units = PROFILES[at].units;
            out->mib = PROFILES[at].mib;
            snprintf(out->name, sizeof out->name, "%s", PROFILES[at].name);
            return OK;
        }
    return NOT_SUPPORTED;
}
struct place { u32 start, size; };
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle h, u32 id, struct place *out, u32 *count) {
    int at = profile_at(id);
    (void)h;
    if (at < 0) return INVALID;
    if (out && *count < PROFILES[at].count) return TOO_SMALL;
    *count = PROFILES[at].count;
    for (u32 one = 0; out && one < PROFILES[at].count; one++) out[one] = (struct place){PROFILES[at].starts[one], PROFILES[at].size};
    return OK;
}
#ifndef OLD
int nvmlDeviceCreateGpuInstanceWithPlacement(handle h, u32 id, const struct place *place, handle *out) {
    int at = profile_at(id);
    ENTER("nvmlDeviceCreateGpuInstanceWithPlacement");
    struct board *board = board_of(h);
    u32 compute = 0, same = 0, taken = 0, free = MOST;
    if (at < 0 || place->size != PROFILES[at].size) return leave(INVALID);
    if (!board->mode) return leave(NOT_SUPPORTED);
    for (u32 one = 0; one < MOST; one++) {
        struct part *part = &board->parts[one];
        if (!part->there) { if (free == MOST) free = one; continue; }
        int own = profile_at(part->profile);
        compute += PROFILES[own].compute;
        same += part->profile == id;
        taken |= ((1u << PROFILES[own].size) - 1) << part->start;
    }
    u32 wanted = ((1u << place->size) - 1) << place->start;
    if (taken & wanted || compute + PROFILES[at].compute > 7 || same >= PROFILES[at].most || free == MOST) return leave(NO_ROOM);
    board->parts[free] = (struct part){1, id, place->start, 0, ++state.serial};
    *out = make(PART, gpu_of(h), free);
    return leave(OK);
}
#endif
int nvmlDeviceGetGpuInstances(handle h, u32 id, handle *out, u32 *count) {
    ENTER("nvmlDeviceGetGpuInstances");
    u32 found = 0;
    for (u32 one = 0; one < MOST; one++)
        if (board_of(h)->parts[one].there && board_of(h)->parts[one].profile == id) out[found++] = make(PART, gpu_of(h), one);
    *count = found;
    return leave(OK);
}
struct about { handle device; u32 id, profile; struct place place; };
int nvmlGpuInstanceGetInfo(handle h, struct about *out) {
    enter();
    struct part *part = part_of(h);
    *out = (struct about){make(DEVICE, gpu_of(h), 0), at_of(h) + 1, part->profile, {part->start, PROFILES[profile_at(part->profile)].size}};
    return leave(OK);
}
int nvmlGpuInstanceDestroy(handle h) {
    ENTER("nvmlGpuInstanceDestroy");
    if (part_of(h)->computed) return leave(IN_USE);
    part_of(h)->there = 0;
    return leave(OK);
}

/* A compute instance takes 1 slice of an instance, or all of it. */
struct compute { u32 id, slices, instances, units, copies, decoders, encoders, jpegs, ofas; };
int nvmlGpuInstanceGetComputeInstanceProfileInfo(handle h, u32 number, u32 engines, struct compute *out) {
    enter();
    u32 whole = PROFILES[profile_at(part_of(h)->profile)].compute;
    leave(OK);
    u32 slices = number == 0 ? 1 : number == 1 ? 2 : number == 2 ? 3 : number == 3 ? 4 : number == 4 ? 7 : number == 7 ? 1 : 0;
    if (engines || !slices) return number < 8 ? NOT_SUPPORTED : INVALID;
    if (slices > whole) return NOT_SUPPORTED;
    *out = (struct compute){number, slices, whole / slices, 0, 0, 0, 0, 0, 0};
    return OK;
}
int nvmlGpuInstanceCreateComputeInstance(handle h, u32 id, handle *out) {
    ENTER("nvmlGpuInstanceCreateComputeInstance");
    if (part_of(h)->computed) return leave(NO_ROOM);
    part_of(h)->computed = id + 1;
    *out = make(COMPUTE, gpu_of(h), at_of(h));
    return leave(OK);
}
int nvmlGpuInstanceGetComputeInstances(handle h, u32 id, handle *out, u32 *count) {
    enter();
    *count = 0;
    if (part_of(h)->computed == id + 1) { *out = make(COMPUTE, gpu_of(h), at_of(h)); *count = 1; }
    return leave(OK);
}
int nvmlComputeInstanceDestroy(handle h) {
    ENTER("nvmlComputeInstanceDestroy");
    part_of(h)->computed = 0;
    return leave(OK);
}
int nvmlDeviceGetMaxMigDeviceCount(handle h, u32 *count) { (void)h; *count = MOST; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(handle h, u32 index, handle *out) {
    enter();
    int there = index < MOST && board_of(h)->parts[index].there && board_of(h)->parts[index].computed;
    if (there) *out = make(SLICE, gpu_of(h), index);
    return leave(there ? OK : NOT_FOUND);
}
int nvmlDeviceGetGpuInstanceId(handle h, u32 *id) { *id = at_of(h) + 1; return OK; }

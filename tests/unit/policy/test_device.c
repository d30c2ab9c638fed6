/* Device descriptions: the built-in ones hold, and each fault in a file has its message. */
#include "check.h"
#include "device_description.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RATE(name, peak, value) "\"" name "\": {\"" peak "\": " value ", \"efficiency\": 0.5}"
#define HEAD                    "{\"name\": \"x\", \"source\": \"s\", "
#define SIZES                   "\"capacity_bytes\": 10, \"reserve_bytes\": 1, \"launch_ns\": 2, "
#define MEMORY                  RATE("memory", "peak_bytes_per_s", "4e9") ", "
#define FLOPS                                                                                      \
    RATE("matmul", "peak_flops_per_s", "8e9")                                                      \
    ", " RATE("attention", "peak_flops_per_s", "8e9") ", " RATE("pointwise", "peak_flops_per_s",   \
                                                                "8e9") "}"

static const struct {
    const char *text, *said; /* NULL: accepted */
} files[] = {
    {HEAD SIZES MEMORY FLOPS, NULL},
    {"[1]", "not an object"},
    {"{", ":1: "},
    {HEAD SIZES "\"memory\": 3, " FLOPS, "\"memory\" must be an object"},
    {HEAD SIZES FLOPS, "\"memory\" is missing"},
    {HEAD SIZES "\"colour\": 1, " MEMORY FLOPS, "\"colour\" is unknown"},
    {HEAD "\"name\": \"y\", " SIZES MEMORY FLOPS, "duplicate object key"},
    {HEAD "\"capacity_bytes\": -1, \"reserve_bytes\": 1, \"launch_ns\": 2, " MEMORY FLOPS,
     "\"capacity_bytes\" must be an integer"},
    {HEAD "\"capacity_bytes\": 1, \"reserve_bytes\": 1.5, \"launch_ns\": 2, " MEMORY FLOPS,
     "\"reserve_bytes\" must be an integer"},
    {HEAD SIZES RATE("memory", "peak_bytes_per_s", "0") ", " FLOPS, "\"memory.peak_bytes_per_s\""},
    {HEAD SIZES RATE("memory", "peak_bytes_per_s", "1e999") ", " FLOPS, "overflow"},
    {HEAD SIZES RATE("memory", "rate", "1e9") ", " FLOPS, "\"memory.rate\" is unknown"},
    {"{\"name\": \"\", \"source\": \"s\", " SIZES MEMORY FLOPS, "\"name\" must be"},
};

static void check_file(remat_context *ctx, struct remat_arena *arena, const char *path,
                       const char *text, const char *said)
{
    struct remat_device_description device;
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    remat_status st = remat_device_description_read(ctx, arena, path, &device);
    if (!said) {
        CHECK(st == REMAT_OK && device.matmul_flops_per_ns == 4 && device.memory_bytes_per_ns == 2,
              "%s: %s", text, remat_context_message(ctx));
        return;
    }
    CHECK(st == REMAT_ERROR_INVALID, "%s: status %d", text, (int)st);
    CHECK(strstr(remat_context_message(ctx), said), "'%s' is not in '%s'", said,
          remat_context_message(ctx));
    CHECK(strstr(remat_context_message(ctx), path), "the file is not named");
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_device_description device;
    char path[64];
    remat_arena_init(&arena, ctx);
    snprintf(path, sizeof path, "/tmp/remat_device_%ld.json", (long)getpid());
    for (const char *const *name = remat_device_description_names(); *name; name++) {
        CHECK(remat_device_description_read(ctx, &arena, *name, &device) == REMAT_OK, "%s",
              remat_context_message(ctx));
        CHECK(strcmp(device.name, *name) == 0 && device.reserve_bytes > 0, "%s", *name);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check_file(ctx, &arena, path, files[i].text, files[i].said);
    remove(path);
    CHECK(remat_device_description_read(ctx, &arena, "h300", &device) == REMAT_ERROR_USAGE, "h300");
    CHECK(strstr(remat_context_message(ctx), "cpu, h100-sxm, h200"), "names");
    CHECK(remat_device_description_read(ctx, &arena, "/nowhere/x.json", &device) == REMAT_ERROR_IO,
          "no such file");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return failures > 0;
}

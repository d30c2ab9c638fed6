/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "json_file.h"
#include "machine.h"
#include "size.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t find_kib(const char *status, const char *key)
{
    const char *found = strstr(status, key);
    return found ? strtoull(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* Without a stream, whose buffer takes memory. */
void report_measure_memory(struct measured *measured)
{
    char status[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, status, sizeof status - 1);
    status[bytes > 0 ? bytes : 0] = 0;
    measured->resident_bytes = find_kib(status, "\nVmHWM:");
    measured->address_bytes = find_kib(status, "\nVmPeak:");
    if (file >= 0)
        close(file);
}

static void print_memory(FILE *out, const char *what, const char *predicted, uint64_t measured,
                         const char *note)
{
    fprintf(out, "%-20s %12s %12s%s\n", what, predicted, remat_short_text(measured).text, note);
}

static bool on_gpu(const struct measured *measured)
{
    return strcmp(measured->device, "cpu") != 0;
}

/* The plan's times are of another machine: a GPU's on a CPU, or those of another processor. */
static bool is_elsewhere(const remat_plan_info *plan, const struct measured *measured)
{
    char processor[256];
    if (on_gpu(measured) || *plan->target_arch)
        return on_gpu(measured) != (*plan->target_arch != 0);
    machine_processor(processor, sizeof processor);
    size_t length = strlen(processor); /* what is measured here is named "PROCESSOR, N threads" */
    return strncmp(plan->target, processor, length) != 0 || plan->target[length] != ',';
}

/* A utilization is one of the target's peak. */
uint64_t report_model_ns(const remat_plan_info *plan, const struct measured *measured)
{
    return is_elsewhere(plan, measured) ? 0 : plan->model_ns;
}

static struct remat_throughput measured_throughput(const remat_plan_info *plan,
                                                   const struct measured *measured)
{
    return remat_throughput_of(plan->step_tokens, plan->rank_count, report_model_ns(plan, measured),
                               measured->steps ? measured->step_ns : 0);
}

static void print_pair(FILE *out, const char *what, const char *predicted, const char *measured)
{
    if (*predicted || *measured)
        fprintf(out, "%-20s %12s %12s\n", what, predicted, measured);
}

static struct remat_unit_text rate_text(double rate)
{
    return rate > 0 ? remat_rate_text(rate) : (struct remat_unit_text){""};
}

static struct remat_unit_text share_text(double share)
{
    struct remat_unit_text text = {""};
    if (share > 0)
        snprintf(text.text, sizeof text.text, "%.1f %%", 100 * share);
    return text;
}

static void print_throughput(FILE *out, const remat_plan_info *plan,
                             const struct measured *measured)
{
    struct remat_throughput predicted = remat_throughput_of(
        plan->step_tokens, plan->rank_count, plan->model_ns, plan->predicted_step_ns);
    struct remat_throughput actual = measured_throughput(plan, measured);
    print_pair(out, "tokens/s", rate_text(predicted.tokens_per_s).text,
               rate_text(actual.tokens_per_s).text);
    if (plan->rank_count > 1)
        print_pair(out, *plan->target_arch ? "of a GPU" : "of a rank",
                   rate_text(predicted.rank_tokens_per_s).text,
                   rate_text(actual.rank_tokens_per_s).text);
    print_pair(out, "MFU", share_text(predicted.mfu).text, share_text(actual.mfu).text);
}

static void print_ratio(FILE *out, const remat_plan_info *plan, const struct measured *measured)
{
    bool elsewhere = is_elsewhere(plan, measured);
    if (elsewhere && !on_gpu(measured) && !*plan->target_arch)
        fputs("  predicted for another machine: --measure-device", out);
    else if (elsewhere)
        fputs("  predicted for ", out), cli_show(out, plan->target);
    else
        fprintf(out, "  %.2f times", (double)measured->step_ns / (double)plan->predicted_step_ns);
}

void report_print(FILE *out, const remat_plan_info *plan, const struct measured *measured)
{
    char parts[192];
    bool gpu = on_gpu(measured);
    uint64_t together = measured->ranks_together;
    char times[24] = "";
    if (together > 1)
        snprintf(times, sizeof times, "%" PRIu64 " x ", together);
    snprintf(parts, sizeof parts, "  %sarena %s + reserve %s", times,
             remat_short_text(plan->arena_bytes).text, remat_short_text(plan->reserve_bytes).text);
    fprintf(out, "\n%-20s %12s %12s\n", "", "predicted", "measured");
    fprintf(out, "%-20s %12s %12s", "step time", remat_time_text(plan->predicted_step_ns).text,
            measured->steps ? remat_time_text(measured->step_ns).text : "no step");
    if (plan->predicted_step_ns && measured->steps) {
        print_ratio(out, plan, measured);
        fprintf(out, ", mean of %" PRIu64 ", ", measured->steps);
        if (gpu)
            cli_show(out, measured->device);
        else
            fprintf(out, "%s%" PRIu32 " %s", times, measured->threads,
                    measured->threads == 1 ? "thread" : "threads");
    }
    fputc('\n', out);
    print_throughput(out, plan, measured);
    if (measured->engine_name) {
        fprintf(out, "%-20s %12s %12" PRIu32 "  engine %s, %s", "ranks", "", plan->rank_count,
                measured->engine_name, measured->place);
        if (measured->engine_bytes)
            fprintf(out, ", %s of the GPU", remat_short_text(measured->engine_bytes).text);
        fputc('\n', out);
    }
    print_memory(out, gpu ? "device memory" : "resident memory",
                 remat_short_text(together * plan->arena_bytes + plan->reserve_bytes).text,
                 gpu ? measured->device_bytes : measured->resident_bytes, parts);
    if (!gpu)
        print_memory(out, "address space",
                     plan->budget_bytes ? remat_short_text(together * plan->budget_bytes).text
                                        : "no budget",
                     measured->address_bytes, "");
}

static json_t *step_times(const remat_plan_info *plan, const struct measured *measured)
{
    json_t *times = json_array();
    for (uint32_t r = 0; r < plan->rank_count; r++)
        (void)json_array_append_new(times, json_integer((json_int_t)measured->rank_step_ns[r]));
    return times;
}

remat_status report_write(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                          const remat_plan_info *plan, const struct measured *measured)
{
    struct remat_throughput throughput = measured_throughput(plan, measured);
    json_t *report = json_pack(
        "{s:s,s:s,s:s,s:s,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:I,s:f,s:b}",
        "schema", "remat-run/1", "policy", plan->policy, "graph", plan->graph_name, "device",
        measured->device, "completed", measured->completed, "steps", (json_int_t)measured->steps,
        "threads", (json_int_t)measured->threads, "budget_bytes", (json_int_t)plan->budget_bytes,
        "reserve_bytes", (json_int_t)plan->reserve_bytes, "arena_bytes",
        (json_int_t)plan->arena_bytes, "peak_bytes", (json_int_t)plan->peak_bytes,
        "predicted_step_ns", (json_int_t)plan->predicted_step_ns, "step_ns",
        (json_int_t)measured->step_ns, "resident_bytes", (json_int_t)measured->resident_bytes,
        "address_bytes", (json_int_t)measured->address_bytes, "device_bytes",
        (json_int_t)measured->device_bytes, "tokens", (json_int_t)plan->step_tokens, "tokens_per_s",
        throughput.tokens_per_s, "tokens_per_s_rank", throughput.rank_tokens_per_s, "model_flops",
        (json_int_t)plan->model_flops, "mfu", throughput.mfu, "other_machine",
        is_elsewhere(plan, measured));
    if (plan->rank_count > 1 &&
        (json_object_set_new(report, "ranks", json_integer(plan->rank_count)) != 0 ||
         json_object_set_new(report, "engine", json_string(measured->engine_name)) != 0 ||
         json_object_set_new(report, "rendezvous", json_string(measured->place)) != 0 ||
         json_object_set_new(report, "engine_bytes",
                             json_integer((json_int_t)measured->engine_bytes)) != 0 ||
         json_object_set_new(report, "rank_step_ns", step_times(plan, measured)) != 0)) {
        json_decref(report);
        report = NULL;
    }
    return json_file_write(ctx, outputs, path, report, 2);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_microbatches.h"

enum { BATCH, INDEX, PART, PLACE }; /* values */

static void add_value(struct sample_microbatches *s, uint32_t v, const char *name, uint8_t role,
                      uint32_t buffer, int64_t rows, int64_t columns)
{
    struct remat_program_value *value = &s->values[v];
    *value = (struct remat_program_value){.name = name,
                                          .scope = "",
                                          .layer = -1,
                                          .dtype = REMAT_I32,
                                          .role = role,
                                          .rank = columns ? 2 : 1,
                                          .shape = {rows, columns},
                                          .buffer = buffer};
    value->bytes = 4 * (uint64_t)(rows * (columns ? columns : 1));
    s->buffers[buffer] = (struct remat_buffer){.offset_bytes = 256 * (uint64_t)buffer,
                                               .bytes = value->bytes,
                                               .end = 2,
                                               .persistent = true};
}

static void add_operand(struct sample_microbatches *s, uint32_t value, uint8_t access,
                        uint32_t previous)
{
    const struct remat_program_value *v = &s->values[value];
    struct remat_operand *operand = &s->operands[s->program.operand_count++];
    *operand = (struct remat_operand){.value = value,
                                      .previous = previous,
                                      .access = access,
                                      .dtype = v->dtype,
                                      .rank = v->rank,
                                      .shape = {v->shape[0], v->shape[1]},
                                      .strides = {v->rank == 2 ? SAMPLE_COLUMNS : 1, 1}};
    s->commands[s->program.command_count].operand_end = s->program.operand_count;
}

/* The next command, whose operands come after the call. */
static void begin_command(struct sample_microbatches *s, const char *name, uint32_t kernel,
                          uint32_t parameter_end)
{
    struct remat_command *command = &s->commands[s->program.command_count];
    uint32_t parameter = s->program.command_count ? command[-1].parameter_end : 0;
    *command = (struct remat_command){.kernel = kernel,
                                      .operand_begin = s->program.operand_count,
                                      .parameter_begin = parameter,
                                      .parameter_end = parameter_end,
                                      .name = name,
                                      .scope = "",
                                      .layer = -1,
                                      .live_bytes = 1024};
}

static void fill_commands(struct sample_microbatches *s)
{
    s->kernels[0] = (struct remat_kernel){.kind = REMAT_KERNEL_fill, .key = "fill"};
    s->kernels[1] = (struct remat_kernel){.kind = REMAT_KERNEL_batch_slice, .key = "batch_slice"};
    begin_command(s, "part.zero", 0, 1);
    add_operand(s, PART, REMAT_ACCESS_WRITE, REMAT_NONE);
    s->program.command_count++;
    begin_command(s, "part", 1, 1);
    add_operand(s, BATCH, REMAT_ACCESS_READ, REMAT_NONE);
    add_operand(s, INDEX, REMAT_ACCESS_READ, REMAT_NONE);
    add_operand(s, PART, REMAT_ACCESS_WRITE, REMAT_NONE);
    s->program.command_count++;
}

void sample_microbatches(struct sample_microbatches *s)
{
    memset(s, 0, sizeof *s);
    add_value(s, BATCH, "batch", REMAT_ROLE_INPUT, 0, SAMPLE_PARTS * SAMPLE_ROWS, SAMPLE_COLUMNS);
    add_value(s, INDEX, "index", REMAT_ROLE_STEP_STATE, 1, 1, 0);
    add_value(s, PART, "part", REMAT_ROLE_OUTPUT, 2, SAMPLE_ROWS, SAMPLE_COLUMNS);
    add_value(s, PLACE, "place", REMAT_ROLE_STEP_STATE, 3, 1, 0);
    fill_commands(s);
    s->segments[0] = (struct remat_segment){"init", 0, 1};
    s->segments[1] = (struct remat_segment){"microbatch", 1, 2};
    s->calls[0] = (struct remat_call){0, 1, 0};
    s->calls[1] = (struct remat_call){1, SAMPLE_PARTS - 1, 1};
    s->calls[2] = (struct remat_call){1, 1, 0};
    s->calls[3] = (struct remat_call){0, 1, 5};
    s->entries[0] = (struct remat_entry){"init", 0, 1};
    s->entries[1] = (struct remat_entry){"train", 1, 4};
    for (uint32_t t = 0; t < 4; t++)
        s->tensors[t] = (struct remat_tensor){.name = s->values[t].name, .value = t};
    struct remat_program *p = &s->program;
    p->producer = "test 1";
    p->graph_name = "microbatches";
    p->target = "cpu";
    p->policy = "none";
    p->arena_bytes = p->peak_bytes = p->static_bytes = 1024;
    p->touched_bytes = 768 + s->buffers[3].bytes;
    p->buffer_count = p->tensor_count = p->value_count = p->call_count = 4;
    p->segment_count = p->kernel_count = p->entry_count = 2;
    p->parameter_count = 1;
    p->number_tensor = INDEX;
    p->buffers = s->buffers;
    p->values = s->values;
    p->operands = s->operands;
    p->kernels = s->kernels;
    p->commands = s->commands;
    p->segments = s->segments;
    p->entries = s->entries;
    p->calls = s->calls;
    p->tensors = s->tensors;
    p->parameters = s->parameters;
}

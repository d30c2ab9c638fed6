/* From a kernel program and its operands' strides to stages of steps. */
#include "cpu_tile_stages.h"

#include <math.h>

#define PREFETCH_BYTES                                                                             \
    (32u << 20) /* operands at least this large are prefetched: no cache has them */
#define NO_REF UINT16_MAX

/* How often a value changes while the space is walked. Unlike the register classes, it follows from
 * strides too: a load that repeats along the columns varies by row. */
enum variation { UNIFORM, BY_ROW, BY_COLUMN, BY_ELEMENT };

struct node { /* an instruction, perhaps of an internal opcode */
    uint16_t opcode, args[3], access;
    float immediate;
    enum remat_register_class class;
    enum variation variation;
    uint32_t depth;  /* reductions below it */
    bool live, wide; /* wide: needed as a whole tile, not as one value */
    uint16_t home;   /* ref of a value that outlives a tile */
    uint32_t stage;  /* of a store */
    /* in the stage being emitted */
    bool needed, copied;
    uint16_t ref;
    uint32_t last_use, written;
};

struct builder {
    remat_context *ctx;
    struct remat_arena *arena, scratch;
    const struct cpu_tile_options *options;
    struct cpu_tile *tile;
    uint32_t count;
    struct node *nodes;
    uint32_t slots, free_count;
    uint16_t *free_slots; /* refs */
};

static bool is_store(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_store;
}

static bool is_load(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_load || node->opcode == REMAT_INSTRUCTION_load_row;
}

static bool is_random(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_random;
}

static bool is_reduction(const struct node *node)
{
    return remat_opcode_is_row_reduction(node->opcode) || node->opcode == CPU_TILE_narrow_sum ||
           remat_opcode_is_column_reduction(node->opcode);
}

static uint32_t arity_of(const struct node *node)
{
    if (node->opcode < REMAT_INSTRUCTION_COUNT)
        return remat_opcode_arity(node->opcode);
    return node->opcode == CPU_TILE_narrow_sum || node->opcode == CPU_TILE_copy ? 1 : 3;
}

static remat_status count_uses(struct builder *b, uint32_t **uses)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(&b->scratch, *uses, b->count);
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < arity_of(&b->nodes[i]); k++)
            (*uses)[b->nodes[i].args[k]]++;
fail:
    return st;
}

/* --- deliberate faults (tests only) --- */

static bool fuse_argument(struct builder *b, uint32_t index, const uint32_t *uses, uint16_t inner,
                          uint16_t fused)
{
    struct node *node = &b->nodes[index];
    for (int k = 0; k < 2; k++) {
        const struct node *arg = &b->nodes[node->args[k]];
        if (arg->opcode != inner || uses[node->args[k]] != 1)
            continue;
        uint16_t other = node->args[1 - k];
        *node = (struct node){
            .opcode = fused, .class = node->class, .args = {arg->args[0], arg->args[1], other}};
        return true;
    }
    return false;
}

static remat_status plant_faults(struct builder *b)
{
    remat_status st = REMAT_OK;
    uint32_t faults = b->options->faults, *uses;
    REMAT_TRY(count_uses(b, &uses));
    bool narrow = b->options->threads > 1 || b->count > 12;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        bool add = node->opcode == REMAT_INSTRUCTION_add;
        if (faults & (CPU_TILE_FAULT_CONTRACTED | CPU_TILE_FAULT_UNROUNDED) && add &&
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_mul, CPU_TILE_contracted))
            continue;
        if (faults & CPU_TILE_FAULT_UNROUNDED && add)
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_add, CPU_TILE_wide_add);
        if (faults & CPU_TILE_FAULT_UNROUNDED && node->opcode == REMAT_INSTRUCTION_mul)
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_mul, CPU_TILE_wide_multiply);
        if (faults & CPU_TILE_FAULT_UNROUNDED && node->opcode == REMAT_INSTRUCTION_round_bf16)
            node->opcode = CPU_TILE_copy;
        if (faults & CPU_TILE_FAULT_REDUCTION && narrow &&
            node->opcode == REMAT_INSTRUCTION_row_sum)
            node->opcode = CPU_TILE_narrow_sum;
    }
    if (faults & CPU_TILE_FAULT_REDUCTION && narrow)
        b->tile->column_block_rows = 3;
    if (faults & CPU_TILE_FAULT_RANDOM && b->options->threads > 1)
        b->tile->random_share = b->tile->rows * b->tile->columns / b->options->threads + 1;
fail:
    return st;
}

/* --- the index space --- */

/* Strides of one memory instruction over the axes of the space, as kernel.h defines them. */
static void fill_access(const struct remat_program *program, const struct cpu_tile_source *source,
                        const struct remat_instruction *instruction, const struct node *arg,
                        struct access *access, int64_t *strides)
{
    const struct remat_operand *operand = &source->operands[instruction->operand];
    const struct remat_buffer *buffer = &program->buffers[program->values[operand->value].buffer];
    uint32_t bytes = remat_dtype_bytes(operand->dtype);
    int last = (int)source->rank - 1;
    bool random = instruction->opcode == REMAT_INSTRUCTION_random;
    for (int k = 0; k <= last; k++)
        strides[k] = source->space[k] == 1 || random ? 0 : operand->strides[k];
    bool by_row =
        instruction->opcode == REMAT_INSTRUCTION_load_row || (arg && arg->class == REMAT_CLASS_ROW);
    if (by_row && last >= 0)
        strides[last] = 0;
    if (arg && arg->class == REMAT_CLASS_COLUMN)
        for (int k = 0; k < last; k++)
            strides[k] = 0;
    access->type = operand->dtype;
    access->bytes = (uint8_t)bytes;
    if (source->words)
        access->type = bytes == 2 ? CPU_TILE_WORD16 : REMAT_F32;
    access->offset_bytes = buffer->offset_bytes + operand->offset_elements * bytes;
    uint64_t reach = 0;
    for (int k = 0; k <= last; k++)
        reach += (uint64_t)strides[k] * (uint64_t)(source->space[k] - 1);
    access->begin_bytes = access->offset_bytes;
    access->end_bytes = access->offset_bytes + (random ? 4 : reach + 1) * bytes;
    access->prefetch = access->end_bytes - access->begin_bytes >= PREFETCH_BYTES;
}

/* Whether what runs along the last axis is more than a list of elements. */
static bool needs_columns(const struct builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct node *node = &b->nodes[i];
        if (is_reduction(node) || node->opcode == REMAT_INSTRUCTION_column)
            return true;
        if (is_store(node) && b->nodes[node->args[0]].class == REMAT_CLASS_ROW)
            return true;
    }
    return false;
}

static bool mergeable(uint32_t accesses, int64_t (*strides)[REMAT_RANK_MAX], int outer, int inner,
                      int64_t length)
{
    for (uint32_t a = 0; a < accesses; a++)
        if (strides[a][outer] != strides[a][inner] * length)
            return false;
    return true;
}

/* Merges axes into as few as the strides allow: long rows without columns to keep, few row axes. */
static void collapse(struct builder *b, const struct cpu_tile_source *source,
                     int64_t (*strides)[REMAT_RANK_MAX])
{
    struct cpu_tile *tile = b->tile;
    bool keep = needs_columns(b);
    int axes[REMAT_RANK_MAX], count = 0;
    int64_t lengths[REMAT_RANK_MAX];
    for (int k = 0; k < (int)source->rank; k++) {
        bool last = keep && k == (int)source->rank - 1;
        if (source->space[k] == 1 && !last)
            continue;
        if (count && !last &&
            mergeable(tile->access_count, strides, axes[count - 1], k, source->space[k])) {
            axes[count - 1] = k; /* the stride of the merged axis is the inner one's */
            lengths[count - 1] *= source->space[k];
            continue;
        }
        axes[count] = k;
        lengths[count++] = source->space[k];
    }
    int inner = count - 1;
    tile->row_axes = count ? (uint32_t)inner : 0;
    tile->columns = count ? lengths[inner] : 1;
    tile->rows = 1;
    for (int k = 0; k < inner; k++)
        tile->rows *= tile->axes[k] = lengths[k];
    for (uint32_t a = 0; a < tile->access_count; a++) {
        struct access *access = &tile->accesses[a];
        int64_t bytes = access->bytes;
        for (int k = 0; k < inner; k++)
            access->row_bytes[k] = strides[a][axes[k]] * bytes;
        if (tile->columns > 1)
            access->column_stride = strides[a][axes[inner]];
        access->column_bytes = access->column_stride * bytes;
        access->tile_bytes = CPU_TILE * access->column_bytes;
        access->prefetch &= access->column_stride == 1;
        tile->prefetches |= access->prefetch;
        if (access->column_stride)
            tile->moving[tile->moving_count++] = (uint16_t)a;
    }
}

static remat_status check_operands(remat_context *ctx, const struct cpu_tile_source *source)
{
    if (source->kernel->operand_count > source->operand_count)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": %u operands, its kernel program has %u", source->name,
                           source->operand_count, source->kernel->operand_count);
    for (uint32_t i = 0; i < source->kernel->instruction_count; i++) {
        const struct remat_instruction *in = &source->kernel->instructions[i];
        const struct remat_operand *operand = &source->operands[in->operand];
        bool random = in->opcode == REMAT_INSTRUCTION_random;
        bool memory = in->opcode == REMAT_INSTRUCTION_load ||
                      in->opcode == REMAT_INSTRUCTION_load_row ||
                      in->opcode == REMAT_INSTRUCTION_store;
        if (memory && operand->rank != source->rank)
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": operand %u has rank %u, its index space %u",
                               source->name, in->operand, operand->rank, source->rank);
        if (random && operand->dtype != REMAT_I32)
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": operand %u is no random state, i32", source->name,
                               in->operand);
    }
    return REMAT_OK;
}

/* A store into bf16 rounds by itself what was to be rounded first. */
static void drop_roundings(struct builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (is_store(node) && b->tile->accesses[node->access].type == REMAT_BF16 &&
            b->nodes[node->args[0]].opcode == REMAT_INSTRUCTION_round_bf16)
            node->args[0] = b->nodes[node->args[0]].args[0];
    }
}

static remat_status read_program(struct builder *b, const struct remat_program *program,
                                 const struct cpu_tile_source *source)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel_program *kernel = source->kernel;
    struct cpu_tile *tile = b->tile;
    enum remat_register_class *classes;
    int64_t(*strides)[REMAT_RANK_MAX];
    b->count = kernel->instruction_count;
    REMAT_NEW(&b->scratch, classes, b->count);
    REMAT_NEW(&b->scratch, b->nodes, b->count);
    REMAT_NEW(&b->scratch, strides, b->count);
    REMAT_NEW(b->arena, tile->accesses, b->count);
    REMAT_NEW(b->arena, tile->moving, b->count);
    REMAT_TRY(remat_kernel_program_check(b->ctx, kernel, source->name, classes));
    REMAT_TRY(check_operands(b->ctx, source));
    for (uint32_t i = 0; i < b->count; i++) {
        const struct remat_instruction *in = &kernel->instructions[i];
        struct node *node = &b->nodes[i];
        *node = (struct node){.opcode = in->opcode, .immediate = in->immediate};
        node->class = classes[i];
        memcpy(node->args, in->args, sizeof node->args);
        if (!is_load(node) && !is_store(node) && !is_random(node))
            continue;
        node->access = (uint16_t)tile->access_count++;
        struct access *access = &tile->accesses[node->access];
        fill_access(program, source, in, is_store(node) ? &b->nodes[in->args[0]] : NULL, access,
                    strides[node->access]);
        if (is_store(node) ? !tile->table->stores[access->type] : !tile->table->loads[access->type])
            REMAT_FAIL(b->ctx, REMAT_ERROR_INVALID, "command \"%s\": the cpu device does not %s %s",
                       source->name, remat_opcode_name(in->opcode),
                       remat_dtype_name(source->operands[in->operand].dtype));
    }
    collapse(b, source, strides);
    REMAT_TRY(plant_faults(b));
    drop_roundings(b);
fail:
    return st;
}

/* --- what changes when --- */

static enum variation join(enum variation x, enum variation y)
{
    if (x == y || y == UNIFORM)
        return x;
    return x == UNIFORM ? y : BY_ELEMENT;
}

static enum variation variation_of(const struct builder *b, const struct node *node)
{
    if (is_load(node)) {
        const struct access *access = &b->tile->accesses[node->access];
        if (access->column_stride)
            return BY_ELEMENT;
        for (uint32_t k = 0; k < b->tile->row_axes; k++)
            if (access->row_bytes[k])
                return BY_ROW;
        return UNIFORM;
    }
    if (node->opcode == REMAT_INSTRUCTION_column || is_random(node))
        return BY_ELEMENT;
    if (is_reduction(node))
        return remat_opcode_is_column_reduction(node->opcode) ? BY_COLUMN : BY_ROW;
    enum variation result = UNIFORM;
    for (uint32_t k = 0; k < arity_of(node); k++)
        result = join(result, b->nodes[node->args[k]].variation);
    return result;
}

static bool aliases_load(const struct builder *b, const struct access *access)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct access *other = &b->tile->accesses[b->nodes[i].access];
        if (is_load(&b->nodes[i]) && other->begin_bytes < access->end_bytes &&
            access->begin_bytes < other->end_bytes)
            return true;
    }
    return false;
}

static bool by_element(const struct builder *b, const struct node *node)
{
    if (is_store(node)) {
        enum remat_register_class class = b->nodes[node->args[0]].class;
        return class == REMAT_CLASS_ELEMENT || class == REMAT_CLASS_CONSTANT;
    }
    return node->variation == BY_ELEMENT || is_reduction(node);
}

static void analyse_variation(struct builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        node->variation = variation_of(b, node);
        for (uint32_t k = 0; k < arity_of(node); k++)
            if (b->nodes[node->args[k]].depth > node->depth)
                node->depth = b->nodes[node->args[k]].depth;
        node->depth += is_reduction(node);
        b->tile->by_columns |= remat_opcode_is_column_reduction(node->opcode);
    }
}

_Static_assert(REMAT_INSTRUCTION_sub - REMAT_INSTRUCTION_add == CPU_TILE_INNER_sub &&
                   REMAT_INSTRUCTION_mul - REMAT_INSTRUCTION_add == CPU_TILE_INNER_mul &&
                   REMAT_INSTRUCTION_div - REMAT_INSTRUCTION_add == CPU_TILE_INNER_div,
               "the basic operations are neighbours in instructions.def");

static bool is_basic(const struct node *node)
{
    return node->variation == BY_ELEMENT && node->opcode >= REMAT_INSTRUCTION_add &&
           node->opcode <= REMAT_INSTRUCTION_div;
}

/* Joins an operation with the operation that computes one of its arguments for it alone. */
static remat_status join_pairs(struct builder *b)
{
    static const uint8_t outer[2][4] = {
        {CPU_TILE_OUTER_add, CPU_TILE_OUTER_sub, CPU_TILE_OUTER_mul, CPU_TILE_OUTER_div},
        {CPU_TILE_OUTER_add, CPU_TILE_OUTER_rsub, CPU_TILE_OUTER_mul, CPU_TILE_OUTER_rdiv},
    };
    remat_status st = REMAT_OK;
    uint32_t *uses;
    REMAT_TRY(count_uses(b, &uses));
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        for (int k = 0; k < 2 && is_basic(node); k++) {
            const struct node *arg = &b->nodes[node->args[k]];
            if (!is_basic(arg) || uses[node->args[k]] != 1)
                continue;
            uint16_t other = node->args[1 - k];
            node->opcode = (uint16_t)CPU_TILE_PAIR(arg->opcode - REMAT_INSTRUCTION_add,
                                                   outer[k][node->opcode - REMAT_INSTRUCTION_add]);
            memcpy(node->args, arg->args, sizeof node->args);
            node->args[2] = other;
        }
    }
fail:
    return st;
}

static void analyse_uses(struct builder *b)
{
    uint32_t stages = 1;
    for (uint32_t i = b->count; i-- > 0;) {
        struct node *node = &b->nodes[i];
        node->live |= is_store(node);
        if (!node->live)
            continue;
        if (node->depth + 1 > stages)
            stages = node->depth + 1;
        for (uint32_t k = 0; k < arity_of(node); k++) {
            b->nodes[node->args[k]].live = true;
            b->nodes[node->args[k]].wide |= by_element(b, node) || node->variation == BY_COLUMN;
        }
    }
    /* In place every element is loaded before it is stored: the store waits for the last load. */
    for (uint32_t i = 0; i < b->count; i++)
        if (is_store(&b->nodes[i]))
            b->nodes[i].stage = aliases_load(b, &b->tile->accesses[b->nodes[i].access])
                                    ? stages - 1
                                    : b->nodes[i].depth;
    b->tile->stage_count = stages;
}

/* --- refs --- */

static uint16_t new_slot(struct builder *b)
{
    return (uint16_t)(b->tile->access_count + b->tile->stripe_count + b->slots++);
}

static uint16_t take_slot(struct builder *b)
{
    return b->free_count ? b->free_slots[--b->free_count] : new_slot(b);
}

static void assign_homes(struct builder *b)
{
    struct cpu_tile *tile = b->tile;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (node->live && node->variation == BY_COLUMN && !is_store(node))
            node->home = (uint16_t)(tile->access_count + tile->stripe_count++);
    }
    for (uint32_t i = 0; i < b->count; i++)
        if (b->nodes[i].live && remat_opcode_is_column_reduction(b->nodes[i].opcode))
            b->nodes[i].ref = (uint16_t)(tile->access_count + tile->stripe_count++);
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (node->live && !is_store(node) && node->variation <= BY_ROW)
            node->home = new_slot(b);
    }
}

static uint16_t ref_of(const struct builder *b, uint16_t reg)
{
    const struct node *node = &b->nodes[reg];
    return node->variation == BY_ELEMENT ? node->ref : node->home;
}

static struct step make_step(const struct builder *b, const struct node *node, uint16_t d)
{
    struct step step = {.kind = STEP_OP, .d = d, .spread = node->wide};
    uint16_t *refs[3] = {&step.a, &step.b, &step.c};
    for (uint32_t k = 0; k < arity_of(node); k++)
        *refs[k] = ref_of(b, node->args[k]);
    if (is_load(node)) {
        step.kind = STEP_LOAD;
        step.access = node->access;
        step.u.load = b->tile->table->loads[b->tile->accesses[node->access].type];
    } else if (node->opcode == REMAT_INSTRUCTION_constant) {
        step.kind = STEP_CONSTANT;
        step.u.immediate = node->immediate;
    } else if (node->opcode == REMAT_INSTRUCTION_column) {
        step.kind = STEP_COLUMN;
    } else if (is_random(node)) {
        step.kind = STEP_RANDOM;
        step.access = node->access;
        step.u.site = (uint32_t)node->immediate;
    } else {
        step.u.op = b->tile->table->ops[node->opcode];
    }
    return step;
}

static bool contiguous(const struct access *access)
{
    return access->type == REMAT_F32 && access->column_stride == 1;
}

static bool streamed(const struct builder *b, const struct access *access)
{
    return b->options->stream_bytes && contiguous(access) &&
           access->end_bytes - access->begin_bytes >= b->options->stream_bytes &&
           !aliases_load(b, access);
}

static struct step make_store(struct builder *b, const struct node *node)
{
    const struct access *access = &b->tile->accesses[node->access];
    struct step step = {.kind = STEP_OP, .d = node->access, .a = ref_of(b, node->args[0])};
    if (streamed(b, access)) {
        step.u.op = b->tile->table->ops[CPU_TILE_stream];
        b->tile->streams = true;
    } else if (contiguous(access)) {
        step.u.op = b->tile->table->ops[CPU_TILE_copy];
    } else {
        step.kind = STEP_STORE;
        step.access = node->access;
        step.u.store = b->tile->table->stores[access->type];
    }
    return step;
}

/* --- one stage --- */

static void mark_needed(struct builder *b, uint32_t stage)
{
    bool last = stage + 1 == b->tile->stage_count;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        node->copied = false;
        node->last_use = 0;
        node->written = UINT32_MAX;
        node->needed = node->live && is_reduction(node) && node->depth == stage + 1;
        if (is_store(node))
            node->needed = by_element(b, node)
                               ? node->stage == stage
                               : b->tile->by_columns && last &&
                                     b->nodes[node->args[0]].class == REMAT_CLASS_ROW;
    }
    for (uint32_t i = b->count; i-- > 0;) {
        struct node *node = &b->nodes[i];
        if (!node->needed)
            continue;
        for (uint32_t k = 0; k < arity_of(node); k++) {
            struct node *arg = &b->nodes[node->args[k]];
            if (i > arg->last_use)
                arg->last_use = i;
            bool again =
                arg->variation == BY_ELEMENT || (b->tile->by_columns && arg->variation == BY_ROW);
            arg->needed |= again;
        }
    }
}

/* Results that can be computed where they are stored. */
static void place_stores(struct builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (!node->needed || !is_store(node) || !by_element(b, node))
            continue;
        const struct access *access = &b->tile->accesses[node->access];
        struct node *arg = &b->nodes[node->args[0]];
        node->written = i;
        if (arg->variation == BY_ELEMENT && !is_load(arg) && arg->written == UINT32_MAX &&
            contiguous(access) && !streamed(b, access)) {
            arg->written = i;
            arg->ref = node->access;
            node->written = node->args[0];
            node->needed = false;
        }
    }
}

/* Loads whose memory is overwritten while they are still used are copied first. */
static remat_status copy_loads(struct builder *b, struct steps *steps)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *load = &b->nodes[i];
        if (!load->needed || !is_load(load) || load->variation != BY_ELEMENT)
            continue;
        const struct access *from = &b->tile->accesses[load->access];
        for (uint32_t k = 0; k < b->count; k++) {
            const struct node *store = &b->nodes[k];
            const struct access *to = &b->tile->accesses[store->access];
            load->copied |= is_store(store) && store->written < load->last_use &&
                            to->begin_bytes < from->end_bytes && from->begin_bytes < to->end_bytes;
        }
        if (load->copied) {
            load->ref = take_slot(b);
            REMAT_PUSH(b->arena, steps, make_step(b, load, load->ref));
        }
    }
fail:
    return st;
}

/* Returns to the pool the slots of arguments that instruction `index` uses last. */
static void release_arguments(struct builder *b, uint32_t index)
{
    uint32_t first_slot = b->tile->access_count + b->tile->stripe_count;
    for (uint32_t k = 0; k < arity_of(&b->nodes[index]); k++) {
        struct node *arg = &b->nodes[b->nodes[index].args[k]];
        if (arg->variation == BY_ELEMENT && arg->last_use == index && arg->ref != NO_REF &&
            arg->ref >= first_slot) {
            b->free_slots[b->free_count++] = arg->ref;
            arg->last_use = UINT32_MAX; /* once, when an instruction names it twice */
        }
    }
}

static remat_status emit_reduction(struct builder *b, struct stage *stage, struct node *node,
                                   uint32_t index)
{
    remat_status st = REMAT_OK;
    struct reduction reduction = {.total = node->home, .spread = node->wide};
    if (remat_opcode_is_column_reduction(node->opcode)) {
        reduction.lanes = node->ref;
    } else {
        bool maximum = node->opcode == REMAT_INSTRUCTION_row_max;
        reduction.lanes = new_slot(b);
        reduction.identity = maximum ? -INFINITY : 0.0f;
        reduction.combine =
            b->tile->table->ops[maximum ? REMAT_INSTRUCTION_maximum : REMAT_INSTRUCTION_add];
    }
    REMAT_PUSH(b->arena, &stage->reductions, reduction);
    REMAT_PUSH(b->arena, &stage->element, make_step(b, node, reduction.lanes));
    release_arguments(b, index);
fail:
    return st;
}

static remat_status emit_element(struct builder *b, struct stage *stage, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct node *node = &b->nodes[index];
    if (is_reduction(node))
        return emit_reduction(b, stage, node, index);
    if (is_store(node)) {
        REMAT_PUSH(b->arena, &stage->element, make_store(b, node));
        release_arguments(b, index);
        return REMAT_OK;
    }
    if (is_load(node) && contiguous(&b->tile->accesses[node->access])) {
        node->ref = node->access;
        return REMAT_OK;
    }
    struct step step = make_step(b, node, 0);
    release_arguments(b, index);
    if (node->written == UINT32_MAX)
        node->ref = take_slot(b);
    step.d = node->ref;
    REMAT_PUSH(b->arena, &stage->element, step);
fail:
    return st;
}

/* Values by row and by column, and their stores, which no element waits for in this stage. */
static remat_status emit_others(struct builder *b, uint32_t number, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct node *node = &b->nodes[index];
    struct stage *stage = &b->tile->stages[number];
    bool last = number + 1 == b->tile->stage_count;
    enum remat_register_class stored =
        is_store(node) ? b->nodes[node->args[0]].class : REMAT_CLASS_NONE;
    if (!node->live || (is_reduction(node)))
        return REMAT_OK;
    if (stored == REMAT_CLASS_ROW && last) {
        struct step step = {.kind = STEP_STORE, .access = node->access};
        step.d = node->access;
        step.a = ref_of(b, node->args[0]);
        step.u.store = b->tile->table->stores[b->tile->accesses[node->access].type];
        REMAT_PUSH(b->arena, &b->tile->row_end, step);
    } else if (stored == REMAT_CLASS_COLUMN && node->depth == number + 1) {
        REMAT_PUSH(b->arena, &stage->column, make_store(b, node));
    } else if (!is_store(node) && node->variation == BY_COLUMN && node->depth == number + 1) {
        REMAT_PUSH(b->arena, &stage->column, make_step(b, node, node->home));
    } else if (!is_store(node) && node->variation == BY_ROW &&
               (b->tile->by_columns ? node->needed : node->depth == number)) {
        REMAT_PUSH(b->arena, &stage->row, make_step(b, node, node->home));
    }
fail:
    return st;
}

static remat_status emit_stage(struct builder *b, uint32_t number)
{
    remat_status st = REMAT_OK;
    struct stage *stage = &b->tile->stages[number];
    mark_needed(b, number);
    place_stores(b);
    REMAT_TRY(copy_loads(b, &stage->element));
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        REMAT_TRY(emit_others(b, number, i));
        if (node->needed && !node->copied && by_element(b, node))
            REMAT_TRY(emit_element(b, stage, i));
    }
fail:
    return st;
}

static remat_status emit(struct builder *b)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(b->arena, b->tile->stages, b->tile->stage_count);
    REMAT_NEW(&b->scratch, b->free_slots, 4 * b->count + 4);
    assign_homes(b);
    for (uint32_t i = 0; i < b->count; i++) {
        const struct node *node = &b->nodes[i];
        if (node->live && !is_store(node) && node->variation == UNIFORM)
            REMAT_PUSH(b->arena, &b->tile->uniform, make_step(b, node, node->home));
    }
    for (uint32_t s = 0; s < b->tile->stage_count; s++)
        REMAT_TRY(emit_stage(b, s));
    b->tile->slot_count = b->slots;
fail:
    return st;
}

/* --- work items and scratch --- */

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void divide_work(struct cpu_tile *tile, uint32_t threads)
{
    bool reduces = false;
    for (uint32_t s = 0; s < tile->stage_count; s++)
        reduces |= tile->stages[s].reductions.count > 0;
    tile->item_rows = tile->rows;
    tile->item_columns = tile->columns;
    if (tile->by_columns) {
        int64_t tiles = divide_up(divide_up(tile->columns, CPU_TILE), threads);
        tile->item_columns = CPU_TILE * (tiles < STRIPE_TILES ? tiles : STRIPE_TILES);
    } else if (tile->columns > ITEM_ELEMENTS && !reduces) {
        tile->item_columns = ITEM_ELEMENTS;
        tile->item_rows = 1;
    } else if (tile->columns > 0) {
        tile->item_rows = ITEM_ELEMENTS / tile->columns + 1;
    }
    tile->row_items = tile->rows ? divide_up(tile->rows, tile->item_rows) : 0;
    tile->column_items = tile->columns ? divide_up(tile->columns, tile->item_columns) : 0;
}

static void size_scratch(struct cpu_tile *tile)
{
    uint64_t refs = tile->access_count + tile->stripe_count + tile->slot_count;
    tile->pointer_bytes = remat_align_up(refs * sizeof(float *), REMAT_ALIGNMENT);
    tile->scratch_bytes = tile->pointer_bytes +
                          tile->slot_count * (uint64_t)CPU_TILE * sizeof(float) +
                          tile->stripe_count * (uint64_t)(CPU_TILE * STRIPE_TILES) * sizeof(float);
}

remat_status cpu_tile_prepare(remat_context *ctx, const struct remat_program *program,
                              const struct cpu_tile_source *source,
                              const struct cpu_tile_options *options, struct remat_arena *arena,
                              struct cpu_tile **out)
{
    remat_status st = REMAT_OK;
    struct builder b = {.ctx = ctx, .arena = arena, .options = options};
    remat_arena_init(&b.scratch, ctx);
    REMAT_NEW(arena, b.tile, 1);
    b.tile->table = cpu_tile_table_get(options->isa);
    b.tile->column_block_rows = REMAT_COLUMN_BLOCK_ROWS;
    b.tile->random_share = INT64_MAX;
    REMAT_TRY(read_program(&b, program, source));
    analyse_variation(&b);
    REMAT_TRY(join_pairs(&b));
    analyse_uses(&b);
    REMAT_TRY(emit(&b));
    if (b.tile->access_count + b.tile->stripe_count + b.tile->slot_count >= NO_REF)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "command \"%s\": too many values for the cpu device",
                   source->name);
    divide_work(b.tile, options->threads ? options->threads : 1);
    size_scratch(b.tile);
    *out = b.tile;
fail:
    remat_arena_release(&b.scratch);
    return st;
}

uint64_t cpu_tile_scratch_bytes(const struct cpu_tile *tile)
{
    return tile->scratch_bytes;
}

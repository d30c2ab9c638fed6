/* SPDX-License-Identifier: Apache-2.0 */
/* The file: a head that says what it costs and what differs, tables by layer, functions. */
#include "emit_policy.h"

#include "dump.h"
#include "show.h"
#include "size.h"

#include <inttypes.h>

static const char torch_operators[] =
    "# Operators of torch.ops.aten, and the op that each stands for.\n"
    "OPERATORS = {\n"
    "    \"mm\": \"linear\",\n"
    "    \"addmm\": \"linear\",\n"
    "    \"bmm\": \"matmul\",\n"
    "    \"baddbmm\": \"matmul\",\n"
    "    \"_scaled_dot_product_flash_attention\": \"attention\",\n"
    "    \"_scaled_dot_product_efficient_attention\": \"attention\",\n"
    "    \"_scaled_dot_product_cudnn_attention\": \"attention\",\n"
    "    \"_scaled_dot_product_flash_attention_for_cpu\": \"attention\",\n"
    "    \"_scaled_dot_product_fused_attention_overrideable\": \"attention\",\n"
    "    \"native_layer_norm\": \"layer_norm\",\n"
    "    \"_fused_rms_norm\": \"rms_norm\",\n"
    "    \"gelu\": \"gelu\",\n"
    "    \"relu\": \"relu\",\n"
    "    \"silu\": \"silu\",\n"
    "    \"_softmax\": \"softmax\",\n"
    "}\n";
/* A string of Python's. */
static void append_string(struct remat_text *out, const char *text, size_t length)
{
    const char *end = text + length;
    char shown[REMAT_SHOWN_BYTES];
    remat_text_append(out, "\"");
    while (*text && text < end) {
        if (*text == '"' || *text == '\\')
            remat_text_append(out, "\\%c", *text++);
        else if (remat_show(&text, shown))
            remat_text_append(out, "%s", shown);
    }
    remat_text_append(out, "\"");
}

static void append_text(struct remat_text *out, const char *text)
{
    append_string(out, text, strlen(text));
}

/* {"linear": (0, 2)}: places that are saved, or the number of those that are not. */
static void append_places(struct remat_text *out, const struct policy_layer *layer, bool saved)
{
    bool first = true;
    remat_text_append(out, "{");
    for (uint32_t s = 0; s < POLICY_OPS; s++) {
        uint32_t count = 0;
        for (size_t i = 0; i < layer->places.count; i++) {
            const struct policy_place *place = &layer->places.items[i];
            if (place->saved != saved || strcmp(place->op, policy_ops[s]) != 0)
                continue;
            if (count++ == 0)
                remat_text_append(out, "%s\"%s\": %s", first ? "" : ", ", place->op,
                                  saved ? "(" : "");
            if (saved)
                remat_text_append(out, "%s%" PRIu32, count > 1 ? ", " : "", place->index);
            first = false;
        }
        if (count && saved)
            remat_text_append(out, count > 1 ? ")" : ",)");
        else if (count)
            remat_text_append(out, "%" PRIu32, count);
    }
    remat_text_append(out, "}");
}

/* What a layer's entry in LAYERS says. */
static const char *entry_of(struct remat_arena *arena, const struct policy *p,
                            const struct policy_layer *layer)
{
    struct remat_text out = {.arena = arena};
    if (!layer->checkpoint) {
        remat_text_append(&out, p->framework == POLICY_PYTORCH ? "None, None" : "None");
    } else if (p->framework == POLICY_PYTORCH) {
        append_places(&out, layer, true);
        remat_text_append(&out, ", ");
        append_places(&out, layer, false);
    } else {
        remat_text_append(&out, "(");
        for (size_t i = 0; i < layer->tagged.count; i++) {
            remat_text_append(&out, i ? ", " : "");
            append_text(&out, layer->tagged.items[i]);
        }
        remat_text_append(&out, layer->tagged.count == 1 ? ",)" : ")");
    }
    return out.failed ? NULL : out.items;
}

/* "encoder/layers" of "encoder/layers.3/attn" */
static void append_stack(struct remat_text *out, const struct policy_layer *layer)
{
    size_t length = layer->path_length;
    while (length && layer->path[length - 1] != '.')
        length--;
    append_string(out, layer->path, length ? length - 1 : 0);
}

static remat_status append_layers(struct remat_arena *arena, const struct policy *p,
                                  struct remat_text *out)
{
    bool two = p->framework == POLICY_PYTORCH;
    remat_text_append(out, "LAYERS = {\n");
    for (size_t l = 0; l < p->layers.count; l++) {
        const char *entry = entry_of(arena, p, &p->layers.items[l]);
        if (!entry)
            return REMAT_ERROR_MEMORY;
        remat_text_append(out, "    (");
        append_stack(out, &p->layers.items[l]);
        remat_text_append(out, ", %" PRId32 "): %s%s%s,\n", p->layers.items[l].number,
                          two ? "(" : "", entry, two ? ")" : "");
    }
    remat_text_append(out, "}\nSTACK = ");
    if (p->layers.count)
        append_stack(out, &p->layers.items[0]);
    else
        remat_text_append(out, "None");
    remat_text_append(out, "\n");
    return REMAT_OK;
}

/* A difference in several layers. */
struct difference {
    const char *tag; /* the name without its layer */
    bool saved;
    size_t count, capacity;
    uint32_t *items; /* layers */
};
struct differences REMAT_LIST(struct difference);

static remat_status add_difference(struct remat_arena *arena, struct differences *all,
                                   const struct policy_value *value)
{
    remat_status st = REMAT_OK;
    size_t at = 0;
    const char *tag = value->name + policy_layer_length(value->name, value->layer);
    while (at < all->count &&
           (all->items[at].saved != value->saved || strcmp(all->items[at].tag, tag) != 0))
        at++;
    if (at == all->count)
        REMAT_TRY_PUSH(arena, all, ((struct difference){.tag = tag, .saved = value->saved}));
    if (value->layer >= 0)
        REMAT_TRY_PUSH(arena, &all->items[at], (uint32_t)value->layer);
fail:
    return st;
}

static remat_status append_differences(struct remat_arena *arena, const struct policy *p,
                                       struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct differences all = {0};
    for (size_t i = 0; i < p->differences.count; i++)
        REMAT_TRY(add_difference(arena, &all, &p->differences.items[i]));
    if (all.count == 0)
        remat_text_append(out, "# It saves what the plan saves.\n");
    for (int saved = 0; saved < 2; saved++) {
        bool first = true;
        for (size_t i = 0; i < all.count; i++) {
            const struct difference *d = &all.items[i];
            if (d->saved != (saved != 0))
                continue;
            if (first)
                remat_text_append(out,
                                  saved ? "# Saved here, where the plan does without, recomputes it"
                                        : "# Recomputed here, saved by the plan");
            for (uint32_t a = 0; first && saved && a < REMAT_ACTION_COUNT; a++)
                if (remat_keep_words[a].done)
                    remat_text_append(out, " or saves a %s", remat_action_name(a));
            remat_text_append(out, first ? ":\n#     " : "#     ");
            first = false;
            append_text(out, d->tag + (*d->tag == '.'));
            if (d->count)
                remat_text_append(out, " of layers %s", dump_ranges(arena, d->items, d->count));
            remat_text_append(out, "\n");
        }
    }
fail:
    return st;
}

/* From where the last search ended. */
static uint64_t bytes_of(const struct remat_program *program, const char *name, uint32_t *at)
{
    for (uint32_t i = 0; i < program->value_count; i++) {
        *at = *at + 1 < program->value_count ? *at + 1 : 0;
        if (strcmp(program->values[*at].name, name) == 0)
            return program->values[*at].bytes;
    }
    return 0;
}

/* Products that PyTorch holds although nothing reads them in the backward pass, where only what is
 * made from them is needed, and saved too: else it would replay them. */
static uint64_t count_unread(const struct policy *p, const struct remat_program *planned)
{
    uint32_t record_at = 0, value_at = 0;
    uint64_t bytes = 0;
    for (size_t l = 0; l < p->layers.count && p->framework == POLICY_PYTORCH; l++) {
        const struct policy_layer *layer = &p->layers.items[l];
        for (size_t i = 0; i < layer->places.count && layer->checkpoint; i++) {
            const struct policy_place *place = &layer->places.items[i];
            if (!place->saved || place->decided)
                continue;
            const struct remat_decision_record *d =
                policy_find_record(planned, place->name, &record_at);
            if (!d || remat_action_times(d->action) > 0)
                bytes += bytes_of(planned, place->name, &value_at);
        }
    }
    return bytes;
}

static void append_cost(struct remat_text *out, const char *what, const struct remat_program *p)
{
    if (p)
        remat_text_append(out, "# %-11s  peak %s, %s a step\n", what,
                          remat_exact_text(p->peak_bytes).text, remat_time_text(p->step_ns).text);
    else
        remat_text_append(
            out, "# %-11s  peak and time are known with the graph: remat-dump --model\n", what);
}

static const char torch_imports[] =
    "import functools\n"
    "from collections import Counter\n"
    "\n"
    "import torch\n"
    "from torch.utils.checkpoint import CheckpointPolicy, checkpoint, "
    "create_selective_checkpoint_contexts\n"
    "\n";
static const char torch_layers[] =
    "# By stack and layer: for each op the places whose outputs are saved, counted from 0 in the\n"
    "# layer's forward pass, and how many others are recomputed. None: the layer is no "
    "checkpoint.\n";
static const char torch_functions[] =
    "OP_OF = {getattr(torch.ops.aten, name).default: op for name, op in OPERATORS.items()\n"
    "         if hasattr(torch.ops.aten, name)}\n"
    "\n"
    "\n"
    "def context_fn(saved):\n"
    "    \"\"\"For checkpoint(): saves the places of a layer.\"\"\"\n"
    "    counts = Counter()\n"
    "\n"
    "    def policy(context, operator, *args, **kwargs):\n"
    "        op = OP_OF.get(operator)\n"
    "        place = counts[context.is_recompute, op]\n"
    "        counts[context.is_recompute, op] += 1\n"
    "        if place in saved.get(op, ()):\n"
    "            return CheckpointPolicy.MUST_SAVE\n"
    "        return CheckpointPolicy.PREFER_RECOMPUTE\n"
    "\n"
    "    return create_selective_checkpoint_contexts(policy)\n"
    "\n"
    "\n"
    "def run(function, number, *args, stack=STACK, **kwargs):\n"
    "    \"\"\"Calls a layer.\"\"\"\n"
    "    saved, _ = LAYERS[stack, number]\n"
    "    if saved is None:\n"
    "        return function(*args, **kwargs)\n"
    "    return checkpoint(function, *args, use_reentrant=False,\n"
    "                      context_fn=functools.partial(context_fn, saved), **kwargs)\n"
    "\n"
    "\n"
    "def apply(layers, stack=STACK):\n"
    "    \"\"\"From now on the modules, layers 0, 1, ... of the stack, are called so.\"\"\"\n"
    "    for number, layer in enumerate(layers):\n"
    "        layer.forward = functools.partial(run, layer.forward, number, stack=stack)\n";

static const char jax_imports[] = "import jax\n\n";
static const char jax_layers[] =
    "# By stack and layer: names of the values that are saved, which the model gives them with\n"
    "# jax.ad_checkpoint.checkpoint_name(value, name). None: the layer is no checkpoint.\n";
static const char jax_functions[] =
    "\n"
    "\n"
    "def policy(number, stack=STACK):\n"
    "    \"\"\"For jax.checkpoint(): of a layer that is a checkpoint.\"\"\"\n"
    "    return jax.checkpoint_policies.save_only_these_names(*LAYERS[stack, number])\n"
    "\n"
    "\n"
    "def apply(function, number, stack=STACK):\n"
    "    \"\"\"The function of a layer, as a checkpoint where it is one.\"\"\"\n"
    "    if LAYERS[stack, number] is None:\n"
    "        return function\n"
    "    return jax.checkpoint(function, policy=policy(number, stack))\n";

/* Of what PyTorch holds without need, the bytes are known, the places in memory are not. */
static void append_fit(struct remat_text *out, const struct remat_program *plan,
                       const struct remat_program *planned, uint64_t unread)
{
    uint64_t available = plan->budget_bytes - plan->reserve_bytes;
    if (!planned || !plan->budget_bytes || planned->arena_bytes + unread <= available)
        return;
    remat_text_append(out, "# This policy %s not fit into the plan's budget.\n",
                      planned->arena_bytes > available ? "does" : "may");
}

static remat_status append_head(struct remat_arena *arena, const struct policy *p,
                                const struct remat_program *planned, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = p->program;
    uint64_t unread = planned ? count_unread(p, planned) : 0;
    remat_text_append(out, "# What is recomputed in training. Made by ");
    append_text(out, program->producer);
    remat_text_append(out, " from a plan of ");
    append_text(out, program->graph_name);
    remat_text_append(out, " for ");
    append_text(out, program->target);
    remat_text_append(out, ".\n# Predicted by remat's costs and memory, not by %s's:\n",
                      p->framework == POLICY_PYTORCH ? "PyTorch" : "JAX");
    append_cost(out, "the plan", program);
    append_cost(out, "this policy", planned);
    if (unread)
        remat_text_append(out,
                          "# PyTorch holds %s more: products that nothing reads, which it would "
                          "replay otherwise.\n",
                          remat_exact_text(unread).text);
    append_fit(out, program, planned, unread);
    REMAT_TRY(append_differences(arena, p, out));
    remat_text_append(out, "%s", p->framework == POLICY_PYTORCH ? torch_imports : jax_imports);
    remat_text_append(out, "PLAN_PEAK_BYTES, PLAN_STEP_NS = %" PRIu64 ", %" PRIu64 "\n",
                      program->peak_bytes, program->step_ns);
    if (planned)
        remat_text_append(
            out, "PEAK_BYTES, STEP_NS, UNREAD_BYTES = %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n",
            planned->peak_bytes, planned->step_ns, unread);
    else
        remat_text_append(out, "PEAK_BYTES, STEP_NS, UNREAD_BYTES = None, None, None\n");
fail:
    return st;
}

remat_status policy_print(struct remat_arena *arena, const struct policy *policy,
                          const struct remat_program *planned, struct remat_text *out)
{
    bool torch = policy->framework == POLICY_PYTORCH;
    remat_status st = append_head(arena, policy, planned, out);
    if (st != REMAT_OK)
        return st;
    remat_text_append(out, "%s%s", torch ? torch_operators : "", torch ? torch_layers : jax_layers);
    st = append_layers(arena, policy, out);
    remat_text_append(out, "%s", torch ? torch_functions : jax_functions);
    return st;
}

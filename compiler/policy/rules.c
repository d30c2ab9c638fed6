/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of rules.def, and those of their predicates that are more than an expression: true when
 * the rule is broken, with the holes of its message filled. */
#include "rules.h"

#include "module.h"
#include "ops.h"

#include <fnmatch.h>
#include <stdlib.h>

/* --- what settings mean --- */

bool remat_setting_is(const char *value, const char *word)
{
    return value && strcmp(value, word) == 0;
}

bool remat_settings_selective(const struct remat_policy_settings *settings)
{
    return settings->recompute_activations ||
           remat_setting_is(settings->recompute_granularity, "selective");
}

bool remat_settings_checkpointing(const struct remat_policy_settings *settings)
{
    return settings->gradient_checkpointing || settings->gradient_checkpointing_kwargs ||
           settings->selective_checkpointing;
}

bool remat_settings_by_op(const struct remat_policy_settings *settings)
{
    return remat_setting_is(settings->ac_option, "op") ||
           remat_setting_is(settings->ac_option, "attention") || settings->selective_checkpointing;
}

const char *remat_settings_saved_ops(const struct remat_policy_settings *settings)
{
    if (remat_setting_is(settings->ac_option, "attention") ||
        remat_setting_is(settings->selective_checkpointing, "true"))
        return "attention";
    return settings->selective_checkpointing ? settings->selective_checkpointing
                                             : settings->save_ops;
}

bool remat_ac_option_number(const char *text, int64_t *out)
{
    char *end;
    if (!text || !((*text >= '0' && *text <= '9') || *text == '-'))
        return false;
    *out = strtoll(text, &end, 10); /* beyond 64 bits: the nearest */
    return end > text && *end == 0;
}

static struct remat_word trim(struct remat_word word)
{
    static const char around[] = " {}\"'";
    for (; word.length && strchr(around, *word.text); word.length--)
        word.text++;
    while (word.length && strchr(around, word.text[word.length - 1]))
        word.length--;
    return word;
}

/* An argument in Python, as in JSON or as KEY=VALUE. */
struct keyword {
    struct remat_word key, value;
};

static struct keyword split(struct remat_word argument)
{
    int length = 0;
    while (length < argument.length && !strchr("=:", argument.text[length]))
        length++;
    int rest = length < argument.length ? argument.length - length - 1 : 0;
    return (struct keyword){
        trim((struct remat_word){argument.text, length}),
        trim((struct remat_word){argument.text + argument.length - rest, rest})};
}

/* Its number as typed; NULL: it is another argument. */
static const char *every_n_layers(struct remat_arena *arena, const struct keyword *k)
{
    int64_t number;
    if (!remat_word_is(k->key, "every_n_layers"))
        return NULL;
    const char *text = remat_string(arena, k->value.text, (size_t)k->value.length);
    return remat_ac_option_number(text, &number) ? text : NULL;
}

/* Of the last such argument, as in Python. */
static const char *every_n_layers_text(struct remat_arena *arena,
                                       const struct remat_policy_settings *settings)
{
    const char *text = "1";
    struct remat_word argument;
    for (const char *rest = settings->gradient_checkpointing_kwargs;
         remat_list_next(&rest, &argument);) {
        struct keyword k = split(argument);
        const char *found = every_n_layers(arena, &k);
        text = found ? found : text;
    }
    return text;
}

int64_t remat_settings_every_n_layers(struct remat_arena *arena,
                                      const struct remat_policy_settings *settings)
{
    int64_t every = 1;
    remat_ac_option_number(every_n_layers_text(arena, settings), &every);
    return every;
}

/* --- helpers --- */

static bool is_granularity(const char *value)
{
    return remat_setting_is(value, "none") || remat_setting_is(value, "full") ||
           remat_setting_is(value, "selective");
}

static const char *copy_word(struct remat_rule_case *c, struct remat_word word)
{
    return remat_string(c->arena, word.text, (size_t)word.length);
}

static const char *number_text(const struct remat_rule_case *c, int64_t number)
{
    return REMAT_FORMAT(c->arena, "%lld", (long long)number);
}

static const char *num_layers_text(struct remat_rule_case *c)
{
    const char *text = c->settings->recompute_num_layers_text;
    return text ? text : number_text(c, c->settings->recompute_num_layers);
}

static bool full(const struct remat_policy_settings *s)
{
    return remat_setting_is(s->recompute_granularity, "full");
}

static const char *checkpointing_setting(const struct remat_policy_settings *s)
{
    return s->selective_checkpointing         ? "--selective-checkpointing"
           : s->gradient_checkpointing_kwargs ? "--gradient-checkpointing-kwargs"
           : s->gradient_checkpointing        ? "--gradient-checkpointing"
                                              : NULL;
}

/* The setting that makes a policy depend on layers, as typed; NULL when nothing does. */
static const char *layer_setting(struct remat_rule_case *c)
{
    const struct remat_policy_settings *s = c->settings;
    if (s->enable_activation_checkpointing)
        return "--enable-activation-checkpointing";
    if (s->recompute_activations)
        return "--recompute-activations";
    if (s->recompute_granularity && !remat_setting_is(s->recompute_granularity, "none"))
        return REMAT_FORMAT(c->arena, "--recompute-granularity %s", s->recompute_granularity);
    if (s->ac_mode && !remat_setting_is(s->ac_mode, "none"))
        return REMAT_FORMAT(c->arena, "--ac-mode %s", s->ac_mode);
    return checkpointing_setting(s);
}

/* --- SETTINGS --- */

/* The first word of the list that is none of these fills the hole {value}. */
static bool has_other_word(struct remat_rule_case *c, const char *list,
                           bool (*is_known)(struct remat_word))
{
    struct remat_word word;
    while (remat_list_next(&list, &word))
        if (!is_known(word)) {
            c->value = copy_word(c, word);
            return true;
        }
    return false;
}

static bool is_module(struct remat_word word)
{
    for (uint32_t m = 0; m < REMAT_MODULE_COUNT; m++)
        if (remat_word_is(word, remat_modules[m].name))
            return true;
    return false;
}

static bool list_modules(struct remat_rule_case *c)
{
    struct remat_text names = {.arena = c->arena};
    for (uint32_t m = 0; m < REMAT_MODULE_COUNT; m++)
        remat_text_append(&names, "%s%s", m ? ", " : "", remat_modules[m].name);
    remat_text_complete(&names);
    c->accepted = names.items;
    return true;
}

static bool is_op(struct remat_word word)
{
    uint16_t op;
    return remat_op_find(word.text, (size_t)word.length, &op);
}

/* use_reentrant says how PyTorch does it. */
static bool has_other_keyword(struct remat_rule_case *c)
{
    struct remat_word argument;
    for (const char *rest = c->settings->gradient_checkpointing_kwargs;
         remat_list_next(&rest, &argument);) {
        struct keyword k = split(argument);
        bool flag = remat_word_is(k.value, "true") || remat_word_is(k.value, "True") ||
                    remat_word_is(k.value, "false") || remat_word_is(k.value, "False");
        if (every_n_layers(c->arena, &k) || (remat_word_is(k.key, "use_reentrant") && flag) ||
            trim(argument).length == 0)
            continue;
        c->value = copy_word(c, trim(argument));
        return true;
    }
    return false;
}

/* The list of ops whose outputs are saved; its option fills the hole {setting}. */
static const char *saved_ops(struct remat_rule_case *c)
{
    const struct remat_policy_settings *s = c->settings;
    c->setting = s->selective_checkpointing ? "--selective-checkpointing"
                 : s->save_ops              ? "--save-ops"
                                            : "--ac-option";
    return remat_settings_saved_ops(s);
}

/* The nearest op fills the hole {other}. */
static bool suggest_op(struct remat_rule_case *c)
{
    c->other = REMAT_FORMAT(c->arena, "%s", remat_op_suggest(c->value).text);
    return true;
}

static bool module_twice(struct remat_rule_case *c)
{
    uint32_t seen = 0;
    struct remat_word word;
    for (const char *rest = c->settings->recompute_modules; remat_list_next(&rest, &word);)
        for (uint32_t m = 0; m < REMAT_MODULE_COUNT; m++) {
            if (!remat_word_is(word, remat_modules[m].name))
                continue;
            c->value = remat_modules[m].name;
            if (seen >> m & 1)
                return true;
            seen |= 1u << m;
        }
    return false;
}

static bool families_mixed(struct remat_rule_case *c)
{
    const struct remat_policy_settings *s = c->settings;
    const char *const families[] = {
        s->recompute_granularity          ? "--recompute-granularity"
        : s->recompute_activations        ? "--recompute-activations"
        : s->recompute_method             ? "--recompute-method"
        : s->has_recompute_num_layers     ? "--recompute-num-layers"
        : s->recompute_modules            ? "--recompute-modules"
        : s->distribute_saved_activations ? "--distribute-saved-activations"
                                          : NULL,
        s->ac_mode     ? "--ac-mode"
        : s->ac_option ? "--ac-option"
        : s->save_ops  ? "--save-ops"
                       : NULL,
        s->enable_activation_checkpointing ? "--enable-activation-checkpointing" : NULL,
        checkpointing_setting(s),
    };
    c->setting = c->other = NULL;
    for (size_t f = 0; f < sizeof families / sizeof *families && !c->other; f++)
        *(c->setting ? &c->other : &c->setting) = families[f];
    return c->setting && c->other;
}

/* --- GRAPH --- */

static bool module_missing(struct remat_rule_case *c)
{
    const char *list = c->settings->recompute_modules;
    if (!remat_settings_selective(c->settings))
        return false;
    c->setting = list ? "--recompute-modules" : layer_setting(c);
    uint32_t missing = remat_module_mask(list ? list : "core_attn");
    for (uint32_t n = 0; n < c->graph->node_count && missing; n++)
        if (c->graph->nodes[n].phase == REMAT_PHASE_FORWARD)
            missing &= ~remat_modules_of(&c->graph->scopes[c->graph->nodes[n].scope.i]);
    if (!missing)
        return false;
    const struct remat_module_info *module = &remat_modules[__builtin_ctz(missing)];
    c->value = module->name;
    c->accepted = module->patterns;
    c->other = module->part;
    return true;
}

static bool every_n_layers_range(struct remat_rule_case *c)
{
    struct remat_layer_numbers layers;
    if (!c->settings->gradient_checkpointing_kwargs)
        return false;
    int64_t every = remat_settings_every_n_layers(c->arena, c->settings);
    remat_layers_number(c->arena, c->graph, &layers);
    c->value = every_n_layers_text(c->arena, c->settings);
    c->accepted = number_text(c, layers.count);
    return every < 1 || every > layers.count;
}

/* Ranks have parts of the tokens of some activation. */
static bool divides_tokens(const struct remat_graph *graph)
{
    bool any = false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        any |= graph->values[v].part && graph->values[v].part->tokens;
    return any;
}

/* A value that one layer passes on to another. */
static bool indivisible_input(struct remat_rule_case *c)
{
    const struct remat_graph *g = c->graph;
    int64_t ranks = remat_mesh_size(&g->mesh, "tp");
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            remat_value v = remat_storage_root(g, g->nodes[n].inputs[i]);
            const struct remat_node_info *writer = remat_producer_info(g, v);
            int64_t elements = remat_shape_elements(&g->values[v.i].shape);
            int32_t from = writer ? g->scopes[writer->scope.i].layer : -1;
            int32_t to = g->scopes[g->nodes[n].scope.i].layer;
            if (g->nodes[n].phase != REMAT_PHASE_FORWARD || from < 0 || to < 0 || from == to ||
                elements % ranks == 0)
                continue;
            c->value = g->values[v.i].name;
            c->accepted = number_text(c, elements);
            c->other = number_text(c, ranks);
            return true;
        }
    return false;
}

void remat_layer_ops(const struct remat_graph *graph, bool found[])
{
    memset(found, 0, REMAT_OP_COUNT * sizeof *found);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        if (node->phase == REMAT_PHASE_FORWARD && graph->scopes[node->scope.i].layer >= 0 &&
            !remat_op_has(node->op, REMAT_FACT_VIEW | REMAT_FACT_COLLECTIVE))
            found[node->origin] = true;
    }
}

static bool save_op_missing(struct remat_rule_case *c)
{
    bool found[REMAT_OP_COUNT];
    struct remat_word word;
    uint16_t op;
    const char *rest = saved_ops(c);
    if (!rest)
        return false;
    remat_layer_ops(c->graph, found);
    while (remat_list_next(&rest, &word)) {
        if (remat_op_find(word.text, (size_t)word.length, &op) && found[op])
            continue;
        struct remat_text accepted = {.arena = c->arena};
        for (op = 0; op < REMAT_OP_COUNT; op++)
            if (found[op])
                remat_text_append(&accepted, "%s%s", accepted.count ? ", " : "",
                                  remat_op_info(op)->name);
        c->value = copy_word(c, word);
        c->accepted = accepted.items;
        return true;
    }
    return false;
}

/* --- PINS --- */

/* A scope matches by its path or by that of a scope around it: "h.3" takes "h.3/attn/core" too. */
static bool scope_matches(const char *glob, const char *path)
{
    char prefix[512];
    if (fnmatch(glob, path, 0) == 0)
        return true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof prefix)
            return false;
        memcpy(prefix, path, length);
        prefix[length] = 0;
        if (fnmatch(glob, prefix, 0) == 0)
            return true;
    }
    return false;
}

/* A name reaches through views to the bytes; a scope only holds what is computed in it. */
static void match_pin(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, struct remat_pin_match *match,
                      struct remat_pins *pins)
{
    bool *scopes, save = strcmp(match->setting, "--save") == 0;
    REMAT_NEW(arena, scopes, graph->scope_count);
    for (uint32_t s = 0; s < graph->scope_count; s++)
        scopes[s] = scope_matches(match->glob, graph->scopes[s].path);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        const struct remat_node_info *node = remat_producer_info(graph, v);
        bool by_name = fnmatch(match->glob, graph->values[v.i].name, 0) == 0;
        bool by_scope = node && scopes[node->scope.i];
        if (!by_name && !by_scope)
            continue;
        remat_value target = by_name ? facts->root[v.i] : v;
        match->matched++;
        if ((save ? facts->forward : facts->recomputable)[target.i]) {
            match->applied++;
            (save ? pins->save : pins->recompute)[target.i] = match;
        } else if (remat_is_none(match->example.i)) {
            match->example = v;
        }
    }
}

void remat_pins_match(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, const struct remat_policy_settings *settings,
                      struct remat_pins *out)
{
    out->match_count = settings->save_count + settings->recompute_count;
    REMAT_NEW(arena, out->matches, out->match_count);
    REMAT_NEW(arena, out->save, graph->value_count);
    REMAT_NEW(arena, out->recompute, graph->value_count);
    for (uint32_t i = 0; i < out->match_count; i++) {
        bool save = i < settings->save_count;
        const char *glob = save ? settings->save[i] : settings->recompute[i - settings->save_count];
        out->matches[i] = (struct remat_pin_match){
            .setting = save ? "--save" : "--recompute", .glob = glob, .example = REMAT_NO_VALUE};
        match_pin(arena, graph, facts, &out->matches[i], out);
    }
}

static bool pin_matches_nothing(struct remat_rule_case *c)
{
    for (uint32_t i = 0; i < c->pins->match_count; i++) {
        const struct remat_pin_match *match = &c->pins->matches[i];
        c->setting = match->setting;
        c->value = match->glob;
        if (match->matched == 0)
            return true;
    }
    return false;
}

static const char *why_not_recomputable(const struct remat_node_info *producer)
{
    if (!producer)
        return "it is not computed in the step";
    if (remat_op_has(producer->op, REMAT_FACT_VIEW))
        return "it is a view, which owns no bytes";
    if (producer->phase != REMAT_PHASE_FORWARD)
        return "it is not computed in the forward pass";
    return "it may be computed only once in a step";
}

/* It matches values, but none that it could decide. */
static bool pin_is_idle(struct remat_rule_case *c, const char *setting)
{
    for (uint32_t i = 0; i < c->pins->match_count; i++) {
        const struct remat_pin_match *match = &c->pins->matches[i];
        if (match->matched == 0 || match->applied > 0 || strcmp(match->setting, setting) != 0)
            continue;
        c->setting = setting;
        c->value = match->glob;
        c->other = c->graph->values[match->example.i].name;
        c->accepted = why_not_recomputable(remat_producer_info(c->graph, match->example));
        return true;
    }
    return false;
}

static bool pin_conflict(struct remat_rule_case *c)
{
    for (uint32_t v = 0; v < c->graph->value_count; v++) {
        const struct remat_pin_match *save = c->pins->save[v], *recompute = c->pins->recompute[v];
        if (!save || !recompute)
            continue;
        c->value = save->glob;
        c->other = recompute->glob;
        c->accepted = c->graph->values[v].name;
        return true;
    }
    return false;
}

/* --- the rules --- */

struct rule { /* name NULL: none */
    const char *name, *message;
};

/* The first broken one. */
static struct rule find_broken(struct remat_rule_case *c, enum remat_rule_stage stage)
{
    const struct remat_policy_settings *s = c->settings;
    int64_t number;
    if (stage == REMAT_STAGE_GRAPH)
        c->layers = remat_graph_layers(c->graph);
#define RULE(of_stage, name, broken, message)                                                      \
    if (stage == REMAT_STAGE_##of_stage && (broken))                                               \
        return (struct rule){#name, message};
#include "rules.def"
#undef RULE
    return (struct rule){NULL, NULL};
}

static const char *hole_text(const struct remat_rule_case *c, struct remat_word hole)
{
    const char *text = remat_word_is(hole, "setting")  ? c->setting
                       : remat_word_is(hole, "value")  ? c->value
                       : remat_word_is(hole, "other")  ? c->other
                       : remat_word_is(hole, "graph")  ? c->graph->name
                       : remat_word_is(hole, "layers") ? number_text(c, c->layers)
                       : remat_word_is(hole, "last")   ? number_text(c, c->layers - 1)
                                                       : c->accepted;
    return text ? text : "";
}

/* Copies the message with its holes filled. */
static void fill_message(const struct remat_rule_case *c, const char *message,
                         struct remat_text *out)
{
    while (*message) {
        int plain = (int)strcspn(message, "{");
        remat_text_append(out, "%.*s", plain, message);
        message += plain;
        if (*message == '{') {
            struct remat_word hole = {message + 1, (int)strcspn(message, "}") - 1};
            remat_text_append(out, "%s", hole_text(c, hole));
            message += hole.length + 2;
        }
    }
}

remat_status remat_rules_check(remat_context *ctx, struct remat_rule_case *c,
                               enum remat_rule_stage stage)
{
    struct rule rule = find_broken(c, stage);
    if (!rule.name)
        return REMAT_OK;
    struct remat_text text = {.arena = c->arena};
    fill_message(c, rule.message, &text);
    remat_text_complete(&text);
    return remat_error(ctx, REMAT_ERROR_USAGE, "%s", text.items);
}

const char *remat_rules_broken(struct remat_rule_case *c, enum remat_rule_stage stage)
{
    return find_broken(c, stage).name;
}

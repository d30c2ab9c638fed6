/* SPDX-License-Identifier: Apache-2.0 */
/* Random changes of a timeline, each against the simulator; rollback restores everything. */
#include "support.h"
#include "timeline.h"

enum { PROBLEMS = 60, CHANGES = 400 };

static void compare(struct test *t, struct remat_timeline *line)
{
    struct remat_sequence s = remat_timeline_store(line, &t->arena);
    double time;
    uint64_t peak;
    CHECK(plain_simulate(line->problem, s.items, s.count, &time, &peak), "not valid");
    CHECK((double)line->ticks == time, "ticks %g, time %g", (double)line->ticks, time);
    CHECK((uint64_t)remat_timeline_peak(line) == peak, "peak %ld, simulated %lu",
          (long)remat_timeline_peak(line), (unsigned long)peak);
    uint32_t slot = remat_timeline_peak_slot(line, t->random);
    CHECK(remat_timeline_max(line, slot, slot) == remat_timeline_peak(line), "peak slot");
    CHECK(remat_timeline_max(line, 0, line->slot_count - 1) == remat_timeline_peak(line), "max");
    uint32_t first = draw(t, 0, line->slot_count - 1), last = draw(t, first, line->slot_count - 1);
    int64_t most = 0;
    for (slot = first; slot <= last; slot++) {
        int64_t live = remat_timeline_max(line, slot, slot);
        most = live > most ? live : most;
    }
    CHECK(remat_timeline_max(line, first, last) == most, "max from %u to %u", first, last);
}

static void change(struct test *t, struct remat_timeline *line)
{
    remat_mode_id mode = {draw(t, 0, line->problem->mode_count - 1)};
    remat_problem_node v = line->problem->node_of[mode.i];
    uint32_t slot = draw(t, 0, line->slot_count - 1);
    if (draw(t, 0, 1)) /* crowded there after a while */
        slot = line->runs[line->problem->node_count / 2].items[0];
    if (draw(t, 0, 1) && line->runs[v.i].count > 1) {
        uint32_t i = draw(t, 0, (uint32_t)line->runs[v.i].count - 1);
        remat_timeline_remove(line, line->runs[v.i].items[i]);
    } else if (line->run_count < 40 && !line->problem->once[v.i]) {
        if (line->at[slot].i != UINT32_MAX)
            slot = remat_timeline_make_room(line, slot);
        if (slot != REMAT_SLOT_NONE && remat_timeline_valid_at(line, mode, slot))
            remat_timeline_insert(line, mode, slot);
    }
    if (!remat_timeline_valid(line, v))
        remat_timeline_rollback(line);
}

int main(void)
{
    struct test t;
    test_begin(&t);
    for (int i = 0; i < PROBLEMS; i++) {
        struct remat_problem_parts parts = random_parts(&t, draw(&t, 2, 12));
        if (i % 2)
            add_random_extras(&t, &parts);
        struct remat_problem p = make_from_parts(&t, &parts);
        struct remat_timeline line;
        remat_mode_id order[12];
        for (uint32_t v = 0; v < p.node_count; v++)
            order[v].i = v;
        struct remat_sequence given = {order, p.node_count, p.node_count};
        remat_timeline_create(&t.arena, &p, 16, &line);
        remat_timeline_load(&line, &given, NULL);
        for (int k = 0; k < CHANGES; k++) {
            int64_t peak = remat_timeline_peak(&line);
            uint32_t runs = line.run_count;
            remat_timeline_commit(&line);
            change(&t, &line);
            if (draw(&t, 0, 2) == 0) {
                remat_timeline_rollback(&line);
                CHECK(remat_timeline_peak(&line) == peak && line.run_count == runs, "rollback");
            }
            compare(&t, &line);
        }
        test_next(&t);
    }
    return test_end(&t);
}

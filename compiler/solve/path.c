#include "path.h"

#include "program.h" /* REMAT_NONE */

static uint32_t steps_per_corner(const struct remat_path *path)
{
    return path->region_count - path->held + 1;
}

uint32_t remat_path_length(const struct remat_path *path)
{
    return (path->hull->count - 1 - path->first) * steps_per_corner(path) + 1;
}

uint32_t remat_path_corner(const struct remat_path *path, uint32_t index)
{
    uint32_t steps = steps_per_corner(path);
    return (index + steps - 1) / steps * steps;
}

void remat_path_choice(const struct remat_path *path, uint32_t index, bool *keep)
{
    uint32_t steps = steps_per_corner(path), changed = index % steps;
    const struct remat_border_point *now = &path->hull->points[path->first + index / steps];
    const struct remat_border_point *next = now + 1;
    for (uint32_t i = 0; i < path->item_count; i++) {
        uint32_t region = path->item_region[i];
        bool is_held = region != REMAT_NONE && region >= path->region_count - path->held;
        bool is_changed = changed > 0 && (region == REMAT_NONE || region + 1 < changed);
        bool begins_group = path->item_between[i] && (region + 1) % path->group == 0;
        keep[i] = is_held ? path->hull->points[0].keep[i] : (is_changed ? next : now)->keep[i];
        keep[i] |= begins_group;
    }
}

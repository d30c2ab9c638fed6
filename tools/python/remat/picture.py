# SPDX-License-Identifier: Apache-2.0
"""The picture of a curve, in the looks of remat-compile --curve."""
import math
import pathlib

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 460, 76, 24, 104, 56
TICKS = 8
UNITS = ("B", "kB", "MB", "GB", "TB")
STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#57606a}
.ground{fill:#fff}.title{font-size:17px;font-weight:600;fill:#1f2328}
.grid{stroke:#d0d7de;stroke-width:.7}.axis{stroke:#8c959f;fill:none}
.never{fill:#eaeef2}.band{fill:#54aeff;fill-opacity:.55}
.curve{stroke:#0969da;stroke-width:2;fill:none;stroke-linejoin:round}.point{fill:#0969da}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}.ground{fill:#0d1117}.title{fill:#f0f6fc}.grid{stroke:#262c36}
.axis{stroke:#656c76}.never{fill:#1b222c}.band{fill:#388bfd}.curve{stroke:#58a6ff}.point{fill:#58a6ff}}
</style>"""


def draw(path, points, target):
    """`points` are (budget in bytes, overhead, bound of it), budgets ascending."""
    pathlib.Path(path).write_text(svg(points, target))


def svg(points, target):
    steps = _ticks(points[0][0], points[-1][0])
    heights = _ticks(0, max(100 * overhead for _, overhead, _ in points) or 1)
    low, high = points[0][0], max(points[-1][0], points[0][0] + 1)

    def x(budget):
        return LEFT + (WIDTH - LEFT - RIGHT) * (budget - low) / (high - low)

    def y(percent):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / heights[-1]

    def corners(which):
        return [(x(point[0]), y(100 * point[which])) for point in points]

    def plans():
        """A plan serves all budgets up to the next one's."""
        (a, b), *others = corners(1)
        return f"{a:.1f} {b:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in others)

    def bounds():
        """A bound holds for all smaller budgets."""
        (a, b), *others = corners(2)
        return f"{a:.1f} {b:.1f}" + "".join(f"V{b:.1f}H{a:.1f}" for a, b in others)

    def bounds_backwards():
        (a, b), *others = reversed(corners(2))
        return f"{a:.1f} {b:.1f}" + "".join(f"H{a:.1f}V{b:.1f}" for a, b in others)
    bottom = HEIGHT - BOTTOM
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', STYLE,
             f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
             f'<text class="title" x="24" y="28">training step on {target}</text>',
             '<text x="24" y="48">PyTorch\'s eager kernels</text>', '<path class="curve" d="M24 66h18"/>',
             '<text x="48" y="70">remat</text>', '<path class="band" d="M100 61h14v9h-14z"/>',
             '<text x="120" y="70">not ruled out</text>', '<path class="never" d="M208 61h14v9h-14z"/>',
             '<text x="228" y="70">no plan is this fast (proven)</text>',
             f'<path class="never" d="M{LEFT} {bottom}L{bounds()}V{bottom}z"/>',
             f'<path class="band" d="M{plans()}L{bounds_backwards()}z"/>']
    lines += [f'<path class="grid" d="M{x(one):.1f} {TOP}V{bottom}"/>'
              f'<text x="{x(one):.1f}" y="{bottom + 18}" text-anchor="middle">{_size(one, high)}</text>'
              for one in steps if low <= one <= high]
    lines += [f'<path class="grid" d="M{LEFT} {y(one):.1f}H{WIDTH - RIGHT}"/>'
              f'<text x="{LEFT - 8}" y="{y(one) + 4:.1f}" text-anchor="end">{one:g} %</text>' for one in heights]
    lines += [f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>',
              f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">memory budget</text>',
              f'<text x="{LEFT - 8}" y="{TOP - 10}" text-anchor="end">overhead</text>',
              f'<path class="curve" d="M{plans()}"/>']
    lines += [f'<circle class="point" cx="{x(budget):.1f}" cy="{y(100 * overhead):.1f}" r="2.6"/>'
              for budget, overhead, _ in points]
    return "\n".join([*lines, "</svg>\n"])


def _ticks(low, high):
    """Round numbers from below `low` to above `high`."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9) / TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= TICKS)
    return [step * count for count in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _size(count, largest):
    unit = min(len(UNITS) - 1, int(math.log10(largest) / 3))
    return f"{count / 1000 ** unit:g} {UNITS[unit]}"

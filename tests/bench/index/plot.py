"""Draws what run.py found: a panel for each database and figure, a bar for each kind of key."""
import statistics

COLUMNS = [  # figure, title, as a ratio to auto-increment
    ("rows_per_cpu_s", "inserts a CPU second", True),
    ("bytes", "size", True),
    ("pages_written", "pages written", True),
    ("density", "leaf density", False),
]
BAR, GAP, LABELS, PANEL, SPACE, HEAD = 16, 6, 100, 150, 60, 46
COLORS = {"autoincrement": "#777777", "snowflake": "#1b6ca8", "uuidv7": "#2a9d8f", "ulid-binary": "#6a994e",
          "ulid-text": "#a7c957", "uuidv4": "#d1495b", "public": "#e09f3e"}


def ratios(kinds, kind, figure):
    """Of every round, to auto-increment in that round."""
    return [mine[figure] / base[figure] for mine, base in zip(kinds[kind], kinds["autoincrement"])]


def rounds_of(kinds):
    """How many figures a median is of, in words."""
    fewest, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
    return f"{fewest} to {most} rounds" if fewest < most else f"{most} round{'s' if most > 1 else ''}"


def text(x, y, content, anchor="start", weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}">{content}</text>'


def panel(kinds, left, top, figure, as_ratio):
    values = {kind: statistics.median(ratios(kinds, kind, figure) if as_ratio else
                                      [x[figure] for x in kinds[kind]]) for kind in kinds}
    scale = PANEL / (max(values.values()) if as_ratio else 100)
    for i, (kind, found) in enumerate(values.items()):
        y = top + i * (BAR + GAP)
        yield (f'<rect x="{left}" y="{y}" width="{max(found * scale, 1):.1f}" height="{BAR}" '
               f'fill="{COLORS[kind]}"/>')
        shown = (f"{found:.2f}" if found < 10 else f"{found:.0f}") if as_ratio else f"{found:.0f} %"
        yield text(left + found * scale + 4, y + BAR - 4, shown)


def svg(found):
    n_kinds = max(len(kinds) for kinds in found["engines"].values())
    row = HEAD + n_kinds * (BAR + GAP)
    width = LABELS + len(COLUMNS) * (PANEL + SPACE)
    height = len(found["engines"]) * row + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
           f'height="{height}" font-family="sans-serif" font-size="12" fill="#222222">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for i, (engine, kinds) in enumerate(found["engines"].items()):
        top = i * row + HEAD
        out.append(text(8, top - 26, f"{engine}, {rounds_of(kinds)}", weight="bold"))
        for j, kind in enumerate(kinds):
            out.append(text(LABELS - 6, top + j * (BAR + GAP) + BAR - 4, kind, anchor="end"))
        for j, (figure, title, as_ratio) in enumerate(COLUMNS):
            left = LABELS + j * (PANEL + SPACE)
            out.append(text(left, top - 8, title))
            out.extend(panel(kinds, left, top, figure, as_ratio))
    out.append(text(8, height - 12, f"{found['rows']:,} rows; ratios to auto-increment but for the leaf density; "
                    "medians of the rounds"))
    return "\n".join(out + ["</svg>"]) + "\n"

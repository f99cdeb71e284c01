#include "coordinator/ctl_progress.h"

#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH 30u
#define REDRAW_MS 200u

void progress_init(struct progress *progress) {
    *progress = (struct progress){.clock = clock_system(), .shown = isatty(STDERR_FILENO) == 1};
}

void progress_begin(struct progress *progress, const char *what, uint64_t total) {
    progress->what = what;
    progress->total = total;
    progress->begun_boot_ms = progress->drawn_boot_ms = clock_now(&progress->clock).boot_ms;
}

static void draw(const struct progress *progress, uint64_t done, uint64_t lines, uint64_t took_ms) {

    fprintf(stderr, "\r%s ", progress->what);
    if (progress->total > 0) {
        double part = done < progress->total ? (double)done / (double)progress->total : 1;
        unsigned filled = (unsigned)(part * BAR_WIDTH);
        char bar[BAR_WIDTH + 1];

        for (unsigned i = 0; i < BAR_WIDTH; i++)
            bar[i] = i < filled ? '#' : '.';
        bar[BAR_WIDTH] = '\0';
        fprintf(stderr, "[%s] %3.0f %%  ", bar, part * 100);
    }
    fprintf(stderr, "%.1f million, %.1f million/s\033[K", (double)lines / 1e6,
            (double)lines / 1e3 / (double)took_ms);
    fflush(stderr);
}

void progress_show(struct progress *progress, uint64_t done, uint64_t lines) {
    uint64_t now_boot_ms;

    if (!progress->shown)
        return;
    now_boot_ms = clock_now(&progress->clock).boot_ms;
    if (now_boot_ms - progress->drawn_boot_ms < REDRAW_MS)
        return;
    progress->drawn_boot_ms = now_boot_ms;
    draw(progress, done, lines, now_boot_ms - progress->begun_boot_ms);
}

void progress_end(struct progress *progress) {
    if (progress->shown)
        fputs("\r\033[K", stderr);
}

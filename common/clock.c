#include "common/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#ifdef SNOWFLEET_TEST_CLOCK
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/allocate.h"
#endif

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* The two clocks cannot be read at one moment.  A thread interrupted between the readings would
 * see a step that never was, so the wall clock is read between two looks at the boot clock, and
 * again when these lie further apart than this. */
#define READING_MAX_NS INT64_C(100000)
#define READING_ATTEMPTS 8

static int64_t kernel_ns(clockid_t id) {
    struct timespec now;

    clock_gettime(id, &now); /* fails only for an unknown clock */
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static struct instant_ns system_now_ns(void *self) {
    struct instant_ns best = {0, 0};
    int64_t best_width_ns = INT64_MAX;
    int attempt;

    (void)self;
    for (attempt = 0; attempt < READING_ATTEMPTS && best_width_ns > READING_MAX_NS; attempt++) {
        int64_t before_ns = kernel_ns(CLOCK_BOOTTIME);
        int64_t wall_ns = kernel_ns(CLOCK_REALTIME);
        int64_t width_ns = kernel_ns(CLOCK_BOOTTIME) - before_ns;

        if (width_ns < best_width_ns) {
            best_width_ns = width_ns;
            best = (struct instant_ns){.wall_ns = wall_ns, .boot_ns = before_ns + width_ns / 2};
        }
    }
    return best;
}

static int64_t system_timer_ns(void *self, int64_t wall_ns) {
    (void)self;
    return wall_ns;
}

static enum status system_quality(void *self, struct clock_quality *quality, struct error *err) {
    struct timex kernel = {.modes = 0}; /* read only */

    (void)self;
    if (adjtimex(&kernel) < 0)
        return error_set(err, STATUS_SYSTEM, "adjtimex: %s", strerror(errno));
    *quality = (struct clock_quality){
        .synchronized = !(kernel.status & STA_UNSYNC),
        .max_error_ns = kernel.maxerror * 1000, /* it counts in us */
        .est_error_ns = kernel.esterror * 1000,
        .frequency_ppb = kernel.freq * INT64_C(1000) / 65536, /* in ppm, 16 bits of fraction */
    };
    return STATUS_OK;
}

/* A timer of the far future that the kernel cancels when somebody sets the clock. */
static bool arm_far(int fd) {
    const struct itimerspec far = {.it_value = {.tv_sec = INT32_MAX}};

    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL) == 0 ||
           errno == ECANCELED; /* set at this moment; the timer is armed all the same */
}

static enum status system_set_open(void *self, int *fd, struct error *err) {
    int made = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

    (void)self;
    if (made < 0)
        return error_set(err, STATUS_SYSTEM, "timerfd_create: %s", strerror(errno));
    if (!arm_far(made)) {
        error_set(err, STATUS_SYSTEM, "timerfd_settime: %s", strerror(errno));
        close(made);
        return err->status;
    }
    *fd = made;
    return STATUS_OK;
}

static bool system_set_read(void *self, int fd) {
    uint64_t expirations;
    bool set = read(fd, &expirations, sizeof expirations) < 0 && errno == ECANCELED;

    (void)self;
    arm_far(fd);
    return set;
}

struct clock clock_system(void) {
    return (struct clock){.now_ns = system_now_ns,
                          .timer_ns = system_timer_ns,
                          .quality = system_quality,
                          .set_open = system_set_open,
                          .set_read = system_set_read};
}

static uint64_t whole_ms(int64_t ns) {
    return ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
}

struct instant clock_now(const struct clock *clock) {
    struct instant_ns now = clock_now_ns(clock);

    return (struct instant){.wall_ms = whole_ms(now.wall_ns), .boot_ms = whole_ms(now.boot_ns)};
}

struct instant_ns clock_now_ns(const struct clock *clock) {
    return clock->now_ns(clock->self);
}

enum status clock_quality(const struct clock *clock, struct clock_quality *quality,
                          struct error *err) {
    return clock->quality(clock->self, quality, err);
}

enum status clock_set_open(const struct clock *clock, int *fd, struct error *err) {
    return clock->set_open(clock->self, fd, err);
}

bool clock_set_read(const struct clock *clock, int fd) {
    return clock->set_read(clock->self, fd);
}

#ifdef SNOWFLEET_TEST_CLOCK

#define PPM INT64_C(1000000)

struct test_clock {
    const struct clock_page *page;
    char *path;
    struct test_clock *next;
};
/* All of them, for as long as the process lives: a clock is copied freely and never given back. */
static struct test_clock *pages;

/* a * b / c without overflow on the way, rounded down, held within int64_t. */
static int64_t scaled(int64_t a, int64_t b, int64_t c) {
    __int128 product = (__int128)a * b;
    __int128 quotient = product / c;

    if (product % c != 0 && (product < 0) != (c < 0))
        quotient--;
    if (quotient > INT64_MAX)
        return INT64_MAX;
    return quotient < INT64_MIN ? INT64_MIN : (int64_t)quotient;
}

static struct clock_page read_page(const void *self) {
    const struct clock_page *shared = ((const struct test_clock *)self)->page;

    for (;;) {
        struct clock_page page;

        page.sequence = __atomic_load_n(&shared->sequence, __ATOMIC_ACQUIRE);
        page.wall_offset_ns = __atomic_load_n(&shared->wall_offset_ns, __ATOMIC_RELAXED);
        page.boot_offset_ns = __atomic_load_n(&shared->boot_offset_ns, __ATOMIC_RELAXED);
        page.anchor_boot_ns = __atomic_load_n(&shared->anchor_boot_ns, __ATOMIC_RELAXED);
        page.rate_ppm = __atomic_load_n(&shared->rate_ppm, __ATOMIC_RELAXED);
        page.quality_given = __atomic_load_n(&shared->quality_given, __ATOMIC_RELAXED);
        page.synchronized = __atomic_load_n(&shared->synchronized, __ATOMIC_RELAXED);
        page.max_error_ns = __atomic_load_n(&shared->max_error_ns, __ATOMIC_RELAXED);
        page.est_error_ns = __atomic_load_n(&shared->est_error_ns, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (page.sequence % 2 == 0 &&
            page.sequence == __atomic_load_n(&shared->sequence, __ATOMIC_RELAXED))
            return page;
        sched_yield();
    }
}

static struct instant_ns bend(const struct clock_page *page, struct instant_ns real) {
    return (struct instant_ns){
        .wall_ns = real.wall_ns + page->wall_offset_ns +
                   scaled(real.boot_ns - page->anchor_boot_ns, page->rate_ppm, PPM),
        .boot_ns = real.boot_ns + page->boot_offset_ns,
    };
}

static struct instant_ns page_now_ns(void *self) {
    struct clock_page page = read_page(self);

    return bend(&page, system_now_ns(NULL));
}

static int64_t page_timer_ns(void *self, int64_t wall_ns) {
    struct clock_page page = read_page(self);
    struct instant_ns real = system_now_ns(NULL);
    int64_t ahead_ns = wall_ns - bend(&page, real).wall_ns;
    int64_t real_ahead_ns;

    if (page.rate_ppm <= -PPM) /* it stands still or runs backwards */
        return ahead_ns > 0 ? INT64_MAX : real.wall_ns;
    /* Rounded up: a timer that fires early only has to be armed again. */
    real_ahead_ns = -scaled(-ahead_ns, PPM, PPM + page.rate_ppm);
    return real_ahead_ns > INT64_MAX - real.wall_ns ? INT64_MAX : real.wall_ns + real_ahead_ns;
}

static enum status page_quality(void *self, struct clock_quality *quality, struct error *err) {
    struct clock_page page = read_page(self);

    if (!page.quality_given)
        return system_quality(NULL, quality, err);
    *quality = (struct clock_quality){.synchronized = page.synchronized != 0,
                                      .max_error_ns = page.max_error_ns,
                                      .est_error_ns = page.est_error_ns};
    return STATUS_OK;
}

static enum status page_set_open(void *self, int *fd, struct error *err) {
    const struct test_clock *clock = self;
    int made = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    if (made < 0)
        return error_set(err, STATUS_SYSTEM, "inotify: %s", strerror(errno));
    if (inotify_add_watch(made, clock->path, IN_MODIFY) < 0) {
        error_set(err, STATUS_SYSTEM, "inotify: %s: %s", clock->path, strerror(errno));
        close(made);
        return err->status;
    }
    *fd = made;
    return STATUS_OK;
}

static bool page_set_read(void *self, int fd) {
    char events[4096];
    bool set = false;

    (void)self;
    while (read(fd, events, sizeof events) > 0)
        set = true;
    return set;
}

enum status clock_test_page(const char *path, struct clock *clock, struct error *err) {
    enum status status = STATUS_OK;
    struct test_clock *self;
    struct stat file;
    void *page;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return error_set(err, STATUS_SYSTEM, "clock page %s: %s", path, strerror(errno));
    if (fstat(fd, &file) < 0) {
        status = error_set(err, STATUS_SYSTEM, "clock page %s: %s", path, strerror(errno));
        goto out;
    }
    if (file.st_size < (off_t)offsetof(struct clock_page, quality_given)) {
        status = error_set(err, STATUS_INVALID, "clock page %s: must hold %zu bytes, has %lld",
                           path, offsetof(struct clock_page, quality_given),
                           (long long)file.st_size);
        goto out;
    }
    page = mmap(NULL, sizeof(struct clock_page), PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        status = error_set(err, STATUS_SYSTEM, "clock page %s: %s", path, strerror(errno));
        goto out;
    }
    self = allocate(1, sizeof *self);
    *self = (struct test_clock){
        .page = page, .path = allocate_copy(path, strlen(path)), .next = pages};
    pages = self;
    *clock = (struct clock){.now_ns = page_now_ns,
                            .timer_ns = page_timer_ns,
                            .quality = page_quality,
                            .set_open = page_set_open,
                            .set_read = page_set_read,
                            .self = self};
out:
    close(fd);
    return status;
}

#endif

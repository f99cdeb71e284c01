#include "worker/clock_claim.h"

#include <stdio.h>
#include <string.h>

#define PPM INT64_C(1000000)

static void distrust(struct clock_claim *claim, const char *reason) {
    claim->trusted = false;
    claim->max_error_ns = 0;
    snprintf(claim->reason, sizeof claim->reason, "%s", reason);
}

void clock_claim_kernel(struct clock_claim *claim, const struct clock_quality *quality,
                        const char *daemon, int64_t boot_ns) {
    *claim = (struct clock_claim){.source = "none", .daemon = daemon, .boot_ns = boot_ns};
    if (!quality) {
        distrust(claim, "the kernel does not say how good its clock is");
        return;
    }
    claim->source = "kernel";
    claim->synchronized = quality->synchronized;
    claim->knows_frequency = true;
    claim->frequency_ppb = quality->frequency_ppb;
    if (!quality->synchronized)
        distrust(claim, "nobody told the kernel that its clock is synchronised: no daemon runs, or "
                        "it is chronyd without rtcsync");
    else if (strcmp(daemon, "systemd-timesyncd") == 0 || quality->est_error_ns == 0)
        distrust(claim, "whoever sets the clock tells the kernel that it has no error at all, as "
                        "systemd-timesyncd does");
    else if (quality->est_error_ns > quality->max_error_ns)
        distrust(claim, "whoever sets the clock tells the kernel a bound and no estimate, as "
                        "phc2sys does: the bound is a formality");
    else {
        claim->trusted = true;
        claim->max_error_ns = quality->max_error_ns;
    }
}

void clock_claim_chrony(struct clock_claim *claim, const struct chrony_tracking *tracking,
                        int64_t boot_ns) {
    *claim = (struct clock_claim){.source = "chrony",
                                  .daemon = "chronyd",
                                  .synchronized = tracking->synchronized,
                                  .trusted = true,
                                  .max_error_ns = tracking->max_error_ns,
                                  .boot_ns = boot_ns,
                                  .knows_frequency = true,
                                  .frequency_ppb = tracking->frequency_ppb};
    if (!tracking->synchronized)
        distrust(claim, "chronyd has no source that it follows");
    else if (tracking->local)
        distrust(claim, "chronyd follows nothing but this machine's own clock");
    else if (tracking->max_error_ns == 0)
        distrust(claim, "chronyd claims no error at all");
}

int64_t clock_claim_error_at(const struct clock_claim *claim, int64_t drift_ppm, int64_t boot_ns) {
    int64_t age_ns = boot_ns > claim->boot_ns ? boot_ns - claim->boot_ns : 0;
    int64_t grown_ns = age_ns / PPM * drift_ppm + age_ns % PPM * drift_ppm / PPM + 1, sum;

    return __builtin_add_overflow(claim->max_error_ns, grown_ns, &sum) ? INT64_MAX : sum;
}

/* mutant.h - negative controls: a build with one rule of the protocol taken out, to show that the
 * tests notice.  No normal build defines SNOWFLEET_MUTANT, and then MUTANT() is the constant 0. */
#ifndef SNOWFLEET_COMMON_MUTANT_H
#define SNOWFLEET_COMMON_MUTANT_H

#ifdef SNOWFLEET_MUTANT
enum mutant {
    MUTANT_EXTEND_WITHOUT_COMPARE = 1,  /* an extension that does not compare V(hor) */
    MUTANT_CLAIM_WITHOUT_COMPARE,       /* a claim that does not compare V(hor) */
    MUTANT_START_AT_HORIZON,            /* the first timestamp may be h0 itself */
    MUTANT_RAISE_BEFORE_ANSWER,         /* the limit rises when the extension is sent */
    MUTANT_RELEASE_WHILE_ISSUING,       /* the loop goes on after it handed over last */
    MUTANT_RESUME_ANYWHERE,             /* resumes though V(hor) is not of its chain */
    MUTANT_TIMEOUT_IS_SUCCESS,          /* an unknown outcome is taken for a success */
    MUTANT_REOPEN_AFTER_RELEASE,        /* goes on issuing after an unanswered release */
    MUTANT_RECOVER_WITHOUT_FLOOR,       /* recover raises no floor over what nobody can tell it */
    MUTANT_SEQUENCE_WITHOUT_COMPARE,    /* a grant of values that does not compare the record */
    MUTANT_SEQUENCE_TIMEOUT_IS_SUCCESS, /* a grant of values of unknown outcome is used */
    MUTANT_SEQUENCE_LOW_BASE,           /* a reshard that begins at the lowest next */
    MUTANT_SEQUENCE_LOW_FENCE           /* a fence at what the old copy says */
};
#define MUTANT(name) (SNOWFLEET_MUTANT == MUTANT_##name)
#define MUTANT_BUILD 1 /* own assertions stand back: the oracle is to notice */
#else
#define MUTANT(name) 0
#define MUTANT_BUILD 0
#endif

#endif

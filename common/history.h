/* history.h - [pure] notices that etcd's history went back: restored from an old snapshot, or lost.
 *
 * Whoever asks etcd takes a mark when it sends a request.  An answer whose revision is below the mark's is
 * a suspicion and no more, because a member that was away for a while answers what only reads out of a
 * state of its own.  A fence tells: a transaction by way of etcd's log, which is never answered with less
 * than was seen before it was sent, unless history went back.  Until it has told, and after an alarm for
 * as long as that stands, nothing new is to be rested on what etcd says.
 *
 * An alarm ends only when meta names an era that counts ours among its earlier ones: revisions count
 * anew from there. */
#ifndef SNOWFLEET_COMMON_HISTORY_H
#define SNOWFLEET_COMMON_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/etcd.h"
#include "common/keys.h"
#include "common/records.h"

struct history {
    char era[HEX128_CHARS + 1];    /* ours; "" before meta was read */
    int64_t highest;               /* revision seen in this era; 0: none */
    unsigned eras;                 /* followed so far: tells answers of an era that is over */
    bool suspect;                  /* until a fence tells */
    char alarm[RECORD_REASON_MAX]; /* what happened, for people; "" when nothing did */
};

struct history_mark {
    int64_t highest;
    unsigned eras;
};
struct history_mark history_mark(const struct history *history);

/* Can what etcd says be rested on? */
bool history_trusted(const struct history *history);
/* An event or an answer showed this revision. */
void history_saw(struct history *history, int64_t revision);
/* The answer to a request with that mark.  False: it is below what was seen before, so what it says is
 * not to be believed, and a fence is due. */
bool history_answered(struct history *history, const struct history_mark *mark, int64_t revision);
/* meta as read or watched.  The first one's era becomes ours; another era is for a fence to look at. */
void history_meta(struct history *history, const struct meta *meta);

/* Forgets all, as if nothing had been seen; what was asked before tells nothing any more. */
void history_forget(struct history *history);

enum history_verdict {
    HISTORY_HOLDS,
    HISTORY_FOLLOWED, /* it is the first era, or one that follows ours: revisions count anew, no alarm */
    HISTORY_NO_META,     /* we knew an era, and meta is gone */
    HISTORY_FOREIGN_ERA, /* meta's era does not follow ours */
    HISTORY_WENT_BACK    /* the revision is below the mark's */
};
/* A fence with that mark was answered: meta as it read it, NULL when the key is absent.  found says for
 * people what is wrong; "" when nothing is. */
enum history_verdict history_fenced(struct history *history, const struct history_mark *mark,
                                    const struct meta *meta, int64_t revision,
                                    char found[static RECORD_REASON_MAX]);
/* Raises the alarm.  False when one stood already, which stays as it is. */
bool history_alarm(struct history *history, const char *found);

/* The fence: it reads meta, and deletes what never exists: that goes by way of the log and changes
 * nothing.  txn points into it. */
struct history_fence {
    struct etcd_txn txn;
    struct etcd_op ops[2];
    char absent[KEY_MAX];
};
void history_fence_build(struct history_fence *fence, const struct keys *keys);
/* meta as its answer shows it; *kv is the key, NULL when it is absent.  Lives as long as the answer.
 *   STATUS_OK         *meta is read
 *   STATUS_NOT_FOUND  there is none
 *   other             damaged, or of a newer program: that says nothing of history */
enum status history_fence_meta(const struct etcd_txn_result *answer, const struct etcd_kv **kv,
                               struct meta *meta);

#endif

/* horizon.pml - a model of the horizon protocol, for the model checker spin.
 *
 * It follows the protocol of ARCHITECTURE.md for one machine ID: NW worker processes, and etcd as
 * a server whose transactions are atomic.  Machine IDs do not depend on each other, so one is
 * enough.  The assertion: no (timestamp, sequence) of the machine ID is issued twice.
 *
 * What may happen, at any moment: any value of a clock; a pause (some other process goes on
 * instead); a worker killed and restarted; requests lost, late and in any order; answers lost or
 * late, so that every time-out leaves an unknown outcome; the lease expired or the holder evicted.
 *
 * Macros that set the size of the search
 *   T        highest timestamp; the clock and the window are any choice up to it
 *   S        sequence numbers in one millisecond
 *   NW       worker processes
 *   MAXREQ   requests sent in all
 * and what takes part:
 *   RESUME   a worker takes its own slot back without a gap and serves on meanwhile, also after an
 *            extension, release or claim of unknown outcome.  (Wider than the program: here even a
 *            generation closed for release may take its slot back.)
 *   EXT_EQ   extensions that gain nothing
 *   STALE    a read may show one older state of etcd
 *   RESTORE  etcd may go back once to an earlier state
 *   RECOVER  ... and `snowfleetctl recover` follows, step by step, while workers live on: meta is
 *            frozen; each worker is asked, and heard or not; the slot's horizon is raised to what was
 *            heard; meta is opened in a new era with a floor
 *
 * What RECOVER assumes: nothing is claimed or extended between the restore and the freeze (a closed
 * port); and the floor, now + max_window + allowed offset, is not below what was issued, or may still
 * be, by those who were not heard, dead or alive, and is above the horizon of the backup (their clocks
 * were within the offset).  That is all: the limits of those who were heard may be above the floor, and
 * what the backup shows needs neither.
 *
 * A rule left out or weakened, on purpose.  These must fail:
 *   M_EXT_BLIND   an extension compares nothing
 *   M_EXT_NOMOD   an extension does not compare V(hor)
 *   M_ACQ_NOMOD   a claim does not compare V(hor)
 *   M_START_EQ    the first timestamp of a claim may be h0
 *   M_START_SEQ   ... with a sequence number from 0
 *   M_OPTIM       the limit rises when the request is sent, not when it is answered
 *   M_TMO_OK      a time-out counts as a success
 *   M_GIVEBACK    a released generation is not closed
 *   M_REL_REOPEN  a generation goes on after an unanswered release
 *   RESTORE       alone: an old state comes back under live workers, without an era
 *   M_META_BLIND  an old meta value is written back without a compare
 *   M_EXT_NEWERA  a generation of the old era is extended under the new one
 *   M_R_FREEZE    recover does not freeze meta first
 *   M_R_RAISE     ... does not raise the horizon to the evidence
 *   M_R_PENDING   ... takes no account of writes of unknown outcome
 *   M_R_LOWER     ... writes the evidence over a horizon that is higher, too
 *   M_R_CLAIM     ... raises the horizon under the claim that it finds there, with n + 1
 *   M_R_EARLY     ... opens meta before it raises the horizon
 *   M_R_ERA       ... opens meta in the era of before
 *   M_R_FLOOR     ... without a floor
 *   M_R_UNHEARD   the floor does not reach what a worker holds that lives and was not heard
 *   M_R_DEAD      ... or what a dead one held
 *   M_RC_ANY      a resume though V(hor) is not its own
 *   M_RC_ERA      a resume across eras
 *   M_RC_SNAP     a resume goes on from a `last` copied when it was sent
 *   M_RC_SEQ      a resume keeps the timestamp of `last` but not its sequence number
 * These hold, which tells that the rule they drop is a second line of defence:
 *   M_EXT_MONO    an extension may also raise any lower horizon
 *   M_EXT_NOOWN   an extension does not compare V(own)
 *   M_REL_NOMOD   a release compares only V(own)
 * tests/model/CMakeLists.txt lists the configurations checked; check.sh runs one.
 *
 * Not modelled: real time, the ceiling, the quiet time, the threads of one process.
 */
#if defined(RECOVER) && !defined(RESTORE)
#error RECOVER needs RESTORE
#endif
#ifndef T
#define T 3
#endif
#ifndef MAXREQ
#define MAXREQ 4
#endif
#ifndef NW
#define NW 2
#endif
#ifndef S
#define S 1
#endif

#define BIT(x) (1 << (x))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* Requests */
#define NOTHING 0
#define CLAIM 1
#define EXTEND 2
#define RELEASE 3
/* States of a generation */
#define NONE 0
#define OPEN 1
#define CLOSED 2 /* for release */

/* A transaction under way: its kind, its worker, the claim that writes; the V(hor) it compares
 * (horizon ch, claim cc, count cn); the horizon to write, the era of the meta it compares; and
 * whether its worker still listens for the answer. */
typedef Msg { byte k; byte w; byte cl; byte ch; byte cc; byte cn; byte h; byte e; bit live }
/* An answer: ok, or what a failed compare read: V(own), V(hor). */
typedef Rep { bit got; bit ok; byte o; byte h; byte c; byte n }

/* etcd: V(own) is a claim number (0: no key), V(hor) is hh:hc:hn. */
byte own = 0, hh = 0, hc = 0, hn = 0, era = 0, flr = 0, reqs = 0, nm = 0;
Msg net[MAXREQ];
Rep rep[NW];
short issued = 0; /* one bit for each (timestamp, sequence) */
hidden byte i, j, x, xok;
#ifdef STALE
byte z_own, z_hh, z_hc, z_hn; /* one older state that a read may still show */
bit zs = 0;
#endif
#ifdef RESTORE
byte s_own, s_hh, s_hc, s_hn, snap = 0;
#endif
#ifdef RECOVER
/* V(meta) as far as it counts here is era: FIRST, then FROZEN, then SECOND. */
#define FIRST 0
#define FROZEN 1
#define SECOND 2
#define RECOVERS (MAXREQ + 1) /* the claim of recover */
byte stage = 0;     /* of recover: 1 asks, 2 has raised, 3 is done */
byte asked = 0;     /* how many workers; they are alike, so any order stands for all */
byte known = 0;     /* the highest evidence */
byte gone = 0;      /* the highest that those who died have issued, and the others who were not heard can */
#endif

inline send(K, W, CL, CH, CC, CN, H, E) {
  net[nm].k = K; net[nm].w = W; net[nm].cl = CL; net[nm].ch = CH; net[nm].cc = CC;
  net[nm].cn = CN; net[nm].h = H; net[nm].e = E; net[nm].live = 1;
  nm++
}

/* The connection is closed: a late answer is no longer heard. */
inline orphan(W) {
  j = 0;
  do
  :: j < nm -> if :: net[j].w == W -> net[j].live = 0 :: else fi; j++
  :: else -> break
  od;
  j = 0;
  rep[W].got = 0; rep[W].ok = 0; rep[W].o = 0; rep[W].h = 0; rep[W].c = 0; rep[W].n = 0
}

#define SAME (net[i].ch == hh && net[i].cc == hc && net[i].cn == hn)

/* Runs transaction i of those under way. */
inline exec() {
  xok = 0;
  if
  :: net[i].k == CLAIM -> xok = (own == 0 && (SAME
#ifdef M_ACQ_NOMOD
       || 1
#endif
     ))
  :: net[i].k == EXTEND -> xok = ((own == net[i].cl
#ifdef M_EXT_NOOWN
       || 1
#endif
     ) && (SAME
#ifdef M_EXT_NOMOD
       || 1
#endif
#ifdef M_EXT_MONO
       || net[i].h > hh
#endif
     ))
#ifdef M_EXT_BLIND
     xok = 1
#endif
  :: net[i].k == RELEASE -> xok = (own == net[i].cl && (SAME
#ifdef M_REL_NOMOD
       || 1
#endif
     ))
  fi;
#ifdef RECOVER
  /* A release compares no meta. */
  xok = xok && (net[i].e == era || net[i].k == RELEASE);
#endif
  x = net[i].w;
  if
  :: net[i].live ->
     rep[x].got = 1; rep[x].ok = xok;
     if :: !xok -> rep[x].o = own; rep[x].h = hh; rep[x].c = hc; rep[x].n = hn :: else fi
  :: else
  fi;
  if
  :: xok ->
     hh = net[i].h; hc = net[i].cl; hn = (net[i].k == CLAIM -> 1 : net[i].cn + 1);
     if
     :: net[i].k == CLAIM -> own = net[i].cl
     :: net[i].k == RELEASE -> own = 0
     :: else
     fi
  :: else
  fi;
  /* Take it out of the bag. */
  j = i;
  do
  :: j < nm - 1 ->
     net[j].k = net[j+1].k; net[j].w = net[j+1].w; net[j].cl = net[j+1].cl;
     net[j].ch = net[j+1].ch; net[j].cc = net[j+1].cc; net[j].cn = net[j+1].cn;
     net[j].h = net[j+1].h; net[j].e = net[j+1].e; net[j].live = net[j+1].live;
     j++
  :: else -> break
  od;
  nm--;
  net[nm].k = 0; net[nm].w = 0; net[nm].cl = 0; net[nm].ch = 0; net[nm].cc = 0;
  net[nm].cn = 0; net[nm].h = 0; net[nm].e = 0; net[nm].live = 0;
  i = 0; j = 0; x = 0; xok = 0
}

#ifdef RECOVER
/* Recover reads V(hor) and writes in a transaction that compares it: in one step, since one that fails is
 * tried again. */
inline raise() {
  if
#ifndef M_R_RAISE
#ifdef M_R_LOWER
  :: known != hh ->
#else
  :: known > hh ->
#endif
     hh = known;
#ifdef M_R_CLAIM
     hn++
#else
     hc = RECOVERS; hn = 1
#endif
#endif
  :: else
  fi
}

inline open() {
#ifndef M_R_FLOOR
  flr = (gone > s_hh -> gone : 0);
#endif
#ifdef M_R_ERA
  era = FIRST
#else
  era = SECOND
#endif
}

/* Forgotten, so that states which differ in nothing else are the same. */
inline settled() { known = 0; gone = 0; asked = 0; s_hh = 0 }

/* A worker's generation is no more: what it may have issued only the floor can cover. */
inline bury(L) {
#ifndef M_R_DEAD
  if :: stage < 3 && L > gone -> gone = L :: else fi
#else
  skip
#endif
}
#endif

active proctype etcd() {
  do
  /* Any order; a lost request is one that never runs. */
  :: atomic { nm > 0 -> i = 0; do :: i < nm - 1 -> i++ :: break od; d_step { exec() } }
  /* The lease expires or the holder is evicted. */
  :: atomic { own != 0 && reqs < MAXREQ -> own = 0 }
#ifdef STALE
  :: atomic { zs == 0 && reqs > 0 -> zs = 1; z_own = own; z_hh = hh; z_hc = hc; z_hn = hn }
#endif
#ifdef RESTORE
  :: atomic { snap == 0 && reqs > 0 -> snap = 1; s_own = own; s_hh = hh; s_hc = hc; s_hn = hn }
  :: atomic { snap == 1 ->
       snap = 2; own = s_own; hh = s_hh; hc = s_hc; hn = s_hn;
       s_own = 0; s_hc = 0; s_hn = 0;
#ifdef RECOVER
       stage = 1;
#ifndef M_R_FREEZE
       era = FROZEN
#endif
#else
       s_hh = 0
#endif
     }
#ifdef RECOVER
#ifndef M_R_EARLY
  :: atomic { stage == 1 && asked == NW -> d_step { raise(); stage = 2 } }
  :: atomic { stage == 2 -> d_step { open(); settled(); stage = 3 } }
#else
  :: atomic { stage == 1 && asked == NW -> d_step { open(); stage = 2 } }
  :: atomic { stage == 2 -> d_step { raise(); settled(); stage = 3 } }
#endif
#endif
#ifdef M_META_BLIND
  /* A paused leader's freeze and thaw land late and write the old meta back. */
  :: atomic { stage == 3 -> stage = 4; era = FIRST; flr = 0 }
#endif
#endif
  od
}

/* V(hor) is the last value known written; an extension or release, a claim of unknown outcome. */
#define KNOWN(H, C, N) (H == vh && C == vc && N == vn)
#define PEXT(H, C, N) (C == vc && N == vn + 1 && (pend & BIT(H)))
#define PCLM(C, N) (N == 1 && (pcl & BIT(C)))
#ifdef RECOVER
#define RESET bury(last); DROP
#define NOT_PENDING pend = 0; pcl = 0; ph = 0
#define UNKNOWN \
  if \
  :: k == CLAIM -> pcl = pcl | BIT(kc); ph = ph | BIT(want) \
  :: else -> pend = pend | BIT(want) \
  fi
#else
#define RESET DROP
#define NOT_PENDING pend = 0; pcl = 0
#define UNKNOWN if :: k == CLAIM -> pcl = pcl | BIT(kc) :: else -> pend = pend | BIT(want) fi
#endif
#define DROP \
  st = NONE; c = 0; vh = 0; vc = 0; vn = 0; lim = 0; last = 0; ns = S; NOT_PENDING; \
  k = NOTHING; want = 0; kc = 0; ge = 0; ke = 0; kl = 0

/* The claim C is known to have been written: a generation with limit H.  last stays: it was h0, or
 * is our own. */
inline opened(H, C) {
#ifdef M_RC_SNAP
  if :: st != NONE -> last = kl :: else fi;
#endif
#ifdef M_RC_SEQ
  if :: st != NONE -> ns = 0 :: else fi;
#endif
  if :: st == NONE -> ge = ke :: else fi;
#ifdef M_RC_ERA
  ge = ke;
#endif
  st = OPEN; c = C; vh = H; vc = C; vn = 1; lim = H; NOT_PENDING
}

/* What a read-back, or the ELSE branch of a transaction, shows. */
inline look(O, H, C, N) {
  if
  :: KNOWN(H, C, N) ->
     /* Not landed, so far: a first claim is given up, the others try again later. */
     if :: st == NONE -> RESET :: else fi
  :: !KNOWN(H, C, N) && PEXT(H, C, N) ->
     vh = H; vn = N; NOT_PENDING;
     if :: st == OPEN -> lim = H :: else fi
  :: !KNOWN(H, C, N) && PCLM(C, N) -> opened(H, C)
  :: else -> RESET /* foreign: LOST */
  fi
}

proctype worker(byte w) {
  /* The generation: its state, its claim, the last V(hor) known written; limit, last timestamp and
   * the next sequence number in it (S: used up); its era. */
  byte st = NONE, c = 0, vh = 0, vc = 0, vn = 0, lim = 0, last = 0, ns = S;
  /* Of unknown outcome: bits of horizons, bits of claims. */
  byte pend = 0, pcl = 0;
#ifdef RECOVER
  byte ph = 0; /* bits of the horizons of those claims */
#endif
  /* The request under way: its kind, horizon, claim, era; and last when it was sent. */
  byte k = NOTHING, want = 0, kc = 0, ge = 0, ke = 0, kl = 0;
  byte t = 0, q = 0;
  do
  /* Killed and restarted, or the generation dropped. */
  :: atomic { st != NONE || k != NOTHING -> d_step { RESET; orphan(w) } }

  /* CLAIM */
  :: atomic { (st == NONE && k == NOTHING && own == 0 && reqs < MAXREQ
#ifdef RECOVER
         && era != FROZEN
#endif
       ) ->
       last = MAX(hh, flr);
       t = last; do :: t < T -> t++ :: break od; want = t; t = 0;
       d_step {
         vh = hh; vc = hc; vn = hn; reqs++; kc = reqs; k = CLAIM; ke = era;
         send(CLAIM, w, kc, vh, vc, vn, want, era);
#ifdef M_START_EQ
         if :: last > 0 -> last-- :: else fi;
#endif
#ifdef M_START_SEQ
         ns = 0;
#endif
#ifdef M_OPTIM
         opened(want, kc)
#endif
       } }

#ifdef RESUME
  /* RESUME: an open generation serves on meanwhile. */
  :: atomic { st != NONE && k == NOTHING && own == 0 && reqs < MAXREQ && (ge == era
#ifdef M_RC_ERA
         || 1
#endif
       ) && (KNOWN(hh, hc, hn) || PEXT(hh, hc, hn) || PCLM(hc, hn)
#ifdef M_RC_ANY
         || 1
#endif
       ) ->
       t = MAX(hh, flr); do :: t < T -> t++ :: break od; want = t; t = 0;
       d_step {
         if :: !KNOWN(hh, hc, hn) -> NOT_PENDING :: else fi;
         vh = hh; vc = hc; vn = hn; reqs++; kc = reqs; k = CLAIM; ke = era;
         send(CLAIM, w, kc, vh, vc, vn, want, era);
#ifdef M_RC_SNAP
         kl = last
#endif
       } }
#endif

  /* EXTEND */
  :: atomic { st == OPEN && k == NOTHING && lim < T && reqs < MAXREQ ->
#ifdef EXT_EQ
       t = lim;
#else
       t = lim + 1;
#endif
       do :: t < T -> t++ :: break od; want = t; t = 0;
       d_step {
         reqs++; k = EXTEND;
#ifdef M_EXT_NEWERA
         ge = era;
#endif
         send(EXTEND, w, c, vh, vc, vn, want, ge);
#ifdef M_OPTIM
         lim = want
#endif
       } }

  /* RELEASE, also again after an unknown one. */
  :: atomic { st != NONE && k == NOTHING && reqs < MAXREQ ->
       d_step {
#ifndef M_GIVEBACK
         st = CLOSED;
#endif
         want = last; reqs++; k = RELEASE;
         send(RELEASE, w, c, vh, vc, vn, want, ge)
       } }

  /* The answer. */
  :: atomic { k != NOTHING && rep[w].got ->
       d_step {
         if
         :: rep[w].ok && k == CLAIM -> opened(want, kc)
         :: rep[w].ok && k == EXTEND -> vh = want; vn++; lim = want; NOT_PENDING
         :: rep[w].ok && k == RELEASE -> RESET
         :: !rep[w].ok -> look(rep[w].o, rep[w].h, rep[w].c, rep[w].n)
         fi;
         k = NOTHING; want = 0; kc = 0; ke = 0; kl = 0; orphan(w)
       } }

  /* A time-out: the outcome is unknown, read back. */
  :: atomic { k != NOTHING ->
       d_step {
         orphan(w);
         if
#ifdef M_TMO_OK
         :: k == CLAIM -> opened(want, kc)
         :: k == EXTEND -> vh = want; vn++; lim = want
#endif
#ifdef M_REL_REOPEN
         :: k == RELEASE -> st = OPEN
#endif
         :: else ->
            UNKNOWN;
            look(own, hh, hc, hn)
         fi;
         k = NOTHING; want = 0; kc = 0; ke = 0; kl = 0
       } }

#ifdef STALE
  /* The same, but the read is stale; and a claim made from a stale read. */
  :: atomic { k != NOTHING && zs ->
       d_step {
         orphan(w);
         UNKNOWN;
         look(z_own, z_hh, z_hc, z_hn);
         k = NOTHING; want = 0; kc = 0; ke = 0; kl = 0
       } }
  :: atomic { st == NONE && k == NOTHING && zs && z_own == 0 && reqs < MAXREQ ->
       last = z_hh;
       t = last; do :: t < T -> t++ :: break od; want = t; t = 0;
       d_step {
         vh = z_hh; vc = z_hc; vn = z_hn; reqs++; kc = reqs; k = CLAIM; ke = era;
         send(CLAIM, w, kc, vh, vc, vn, want, era)
       } }
#endif

#ifdef RECOVER
  /* Recover asks: the limit, and the most that a write of unknown outcome can have asked for.  It is
   * heard, or not, and then covered by the floor. */
  :: atomic { stage == 1 && asked == w ->
       d_step {
         t = lim;
#ifndef M_R_PENDING
         if :: k != NOTHING && want > t -> t = want :: else fi;
         q = T;
         do
         :: q > t && !((pend | ph) & BIT(q)) -> q--
         :: else -> break
         od;
         t = MAX(q, t);
         q = 0;
#endif
         asked++
       }
       if
       :: known = MAX(known, t)
#ifdef M_R_UNHEARD
       :: skip
#else
       :: gone = MAX(gone, t)
#endif
       fi;
       t = 0 }
#endif

  /* ISSUE: t is the later of the clock and last. */
  :: atomic { st == OPEN && last <= lim && lim > 0 ->
       t = last; do :: t < lim -> t++ :: break od;
       q = 0; do :: q < S - 1 -> q++ :: break od;
       d_step {
         if
         :: t > last || (t == last && ns < S && t > 0) ->
            if :: t == last -> q = ns :: else fi;
            assert(!(issued & BIT((t - 1) * S + q)));
            issued = issued | BIT((t - 1) * S + q);
            last = t; ns = q + 1
         :: else
         fi;
         t = 0; q = 0
       } }
  od
}

init { atomic { byte n; for (n : 0 .. NW - 1) { run worker(n) } } }

#include "eager/repeat.h"

#include <stdlib.h>

#include "base/hash.h"
#include "runner.h"

enum { MOST = 8192 };

/* Plays the recorder: windows end where a repeat says so, or at `most` calls. */
typedef struct player {
    tpj_repeat *repeat;
    uint64_t n, start; /* calls so far; where the window begins */
    uint64_t most;
    int64_t cuts[MOST];
    int n_cuts;
} player;

static bool open_player(player *p, uint64_t most) {
    *p = (player){.repeat = calloc(1, sizeof *p->repeat), .most = most};
    return p->repeat != NULL;
}

static void play(player *p, uint64_t call) {
    uint64_t back, length = ++p->n - p->start;
    if (!tpj_repeat_add(p->repeat, tpj_hash_word(7, call), length, 0, &back)) {
        if (length < p->most) return;
        back = tpj_repeat_divide(p->repeat, length);
    }
    p->start = p->n - back;
    p->cuts[p->n_cuts++] = (int64_t)p->start;
}

/* A step: `n` calls, of which none equals another. */
static void play_step(player *p, uint64_t first, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) play(p, first + i);
}

TEST(repeat_steps_are_found_behind_a_prologue) {
    player p;
    CHECK(open_player(&p, 4096));
    play_step(&p, 100000, 333);
    for (int step = 0; step < 6; step++) play_step(&p, 1, 150);
    /* the first step is known to have ended when the second is 64 calls old; the others end on time */
    CHECK_INT(p.n_cuts, 6);
    for (int i = 0; i < 6; i++) CHECK_INT(p.cuts[i], 333 + 150 * (i + 1));
    free(p.repeat);
}

TEST(repeat_a_first_step_may_differ) {
    player p;
    CHECK(open_player(&p, 4096));
    play_step(&p, 1, 90);    /* forward, backward */
    play_step(&p, 5000, 40); /* the optimizer's state */
    play_step(&p, 91, 30);   /* the optimizer */
    for (int step = 0; step < 5; step++) play_step(&p, 1, 120);
    CHECK_INT(p.n_cuts, 6);
    for (int i = 0; i < 6; i++) CHECK_INT(p.cuts[i], 160 + 120 * i);
    free(p.repeat);
}

/* Layers of a model are alike and no steps, as long as they are short and few. */
TEST(repeat_layers_are_no_steps) {
    player p;
    CHECK(open_player(&p, 4096));
    for (int step = 0; step < 4; step++) {
        play_step(&p, 1000, 20);
        for (int layer = 0; layer < 6; layer++) play_step(&p, 1, 30);
        play_step(&p, 2000, 20);
    }
    CHECK_INT(p.n_cuts, 4);
    for (int i = 0; i < 4; i++) CHECK_INT(p.cuts[i], 220 * (i + 1));
    free(p.repeat);
}

/* Loops of a few calls: windows of several rounds, all of one length. */
TEST(repeat_short_loops_are_cut_alike) {
    for (int64_t period = 1; period < 70; period += 1 + period / 4) {
        player p;
        CHECK(open_player(&p, 4096));
        play_step(&p, 100000, 50);
        while (p.n < 3000) play_step(&p, 1, (uint64_t)period);
        CHECK(p.n_cuts > 10);
        int64_t length = p.cuts[p.n_cuts - 1] - p.cuts[p.n_cuts - 2];
        CHECK(length >= TPJ_REPEAT_LEAST && length < TPJ_REPEAT_LEAST + period);
        CHECK_INT(length % period, 0);
        for (int i = 4; i < p.n_cuts; i++) CHECK_INT(p.cuts[i] - p.cuts[i - 1], length);
        free(p.repeat);
    }
}

/* Steps that are longer than a window: the bound cuts them, at the same calls in each. */
TEST(repeat_long_steps_are_cut_at_the_same_calls) {
    player p;
    CHECK(open_player(&p, 128));
    play_step(&p, 100000, 77);
    int before = 0;
    for (int step = 0; step < 8; step++) {
        play_step(&p, 1, 500);
        if (step == 2) before = p.n_cuts;
    }
    int n = 0; /* cuts a step */
    while (p.cuts[before + n] - p.cuts[before] < 500) n++;
    CHECK(n >= 500 / 128 && n <= 500 / 64 + 1);
    for (int i = before; i + n < p.n_cuts; i++) CHECK_INT(p.cuts[i + n] - p.cuts[i], 500);
    free(p.repeat);
}

/* Reads ended the windows so far; now nobody reads any more. */
TEST(repeat_loops_that_stop_reading_are_cut) {
    player p;
    CHECK(open_player(&p, 4096));
    for (int step = 0; step < 20; step++) {
        play_step(&p, 1, 100);
        if (step < 10) p.start = p.n;
    }
    CHECK(p.n_cuts > 5);
    for (int i = 2; i < p.n_cuts; i++) CHECK_INT(p.cuts[i] - p.cuts[i - 1], 100);
    free(p.repeat);
}

/* A second run of a loop equals the first one, far away; it equals itself as well. */
TEST(repeat_loops_that_come_again_are_cut) {
    for (int64_t length = 40; length < 200; length += 50) {
        player p;
        CHECK(open_player(&p, 4096));
        for (int again = 0; again < 2; again++) {
            play_step(&p, 1000, 20);
            for (int step = 0; step < 30; step++) {
                play_step(&p, 1, (uint64_t)length);
                if (again == 0) p.start = p.n;
            }
        }
        CHECK(p.n_cuts > 3);
        int64_t last = p.cuts[p.n_cuts - 1] - p.cuts[p.n_cuts - 2];
        CHECK(last > 0 && last < 200 && last % length == 0);
        CHECK((int64_t)p.n - p.cuts[p.n_cuts - 1] < 200);
        free(p.repeat);
    }
}

TEST(repeat_calls_without_repeats_are_left_alone) {
    player p;
    CHECK(open_player(&p, 4096));
    play_step(&p, 1, 4000);
    CHECK_INT(p.n_cuts, 0);
    free(p.repeat);
}

/* The same calls, the same cuts. */
TEST(repeat_is_the_same_in_every_run) {
    player p, q;
    CHECK(open_player(&p, 256) && open_player(&q, 256));
    for (int run = 0; run < 2; run++) {
        uint64_t seed = 12345;
        for (int i = 0; i < 6000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            play(run == 0 ? &p : &q, i % 700 < 500 ? (uint64_t)(i % 700) : seed >> 61);
        }
    }
    CHECK(p.n_cuts > 0);
    CHECK_INT(p.n_cuts, q.n_cuts);
    CHECK(memcmp(p.cuts, q.cuts, sizeof *p.cuts * (size_t)p.n_cuts) == 0);
    free(p.repeat);
    free(q.repeat);
}

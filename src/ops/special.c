/* Special functions that neither StableHLO nor CHLO has, as Chebyshev series. The coefficients were computed with 40
 * digits from the defining formulas; the argument of each series is mapped to [-1, 1]. */
#include <math.h>

#include "ops/series.h"

#define SQRT_HALF 0.70710678118654752440

/* exp(-x) I0(x) on [0, 8], in x / 4 - 1 */
static const double I0_NEAR[] = {
    3.3839763720473804e-1,  -3.046826723431984e-1,   1.7162090152220878e-1,  -9.4901097048047644e-2,
    4.9305284239670708e-2,  -2.3737414805899469e-2,  1.0546460394594998e-2,  -4.3243099950505759e-3,
    1.6394756169413358e-3,  -5.7637557453858237e-4,  1.8850288509584166e-4,  -5.7541950100821037e-5,
    1.6448448070728897e-5,  -4.4167383584587506e-6,  1.1173875391201037e-6,  -2.6707938539406117e-7,
    6.0469950225419189e-8,  -1.300025009986248e-8,   2.6598237246823867e-9,  -5.1897956016352629e-10,
    9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
    7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,  -2.4312798465479547e-16,
    3.3307945188222381e-17, -4.4153416464793394e-18,
};
/* exp(-x) sqrt(x) I0(x) on [8, inf), in 16 / x - 1 */
static const double I0_FAR[] = {
    4.0224520550705442e-1,   3.3691164782556941e-3,   6.889758346916824e-5,    2.8913705208347565e-6,
    2.0489185894690637e-7,   2.2666689904981781e-8,   3.3962320257083863e-9,   4.9406023882249696e-10,
    1.1889147107846438e-11,  -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
    7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,  -4.1505693472872221e-14,
    -9.5548466988283065e-15, 3.8116806693526212e-15,  1.7725601330565245e-15,  -3.4254856196771422e-16,
    -2.8276239805166456e-16, 3.4612228676956578e-17,  4.4656214203020775e-17,  -4.8305044859640107e-18,
    -7.2331804880438443e-18,
};
/* exp(-x) I1(x) / x on [0, 8], in x / 4 - 1 */
static const double I1_NEAR[] = {
    1.2629359322181683e-1,  -1.7641651835783406e-1,  1.026436586898471e-1,   -5.2945981208094991e-2,
    2.4726449030626517e-2,  -1.0564084894626198e-2,  4.1564229443128882e-3,  -1.5135724506312531e-3,
    5.1228595616857577e-4,  -1.6176081582589675e-4,  4.7815651075500542e-5,  -1.3273163656039436e-5,
    3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
    9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
    1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
    7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17,
    2.7779141127610464e-18,
};
/* exp(-x) sqrt(x) I1(x) on [8, inf), in 16 / x - 1 */
static const double I1_FAR[] = {
    3.8928811750914006e-1,   -9.7610974913614684e-3,  -1.1058893876262372e-4,  -3.8825648088776904e-6,
    -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
    -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
    -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
    1.0420276984128802e-14,  -3.8144030724370065e-15, -1.8803547755107806e-15, 3.3082023109208502e-16,
    2.9626289976460158e-16,  -3.2095259219916369e-17, -4.6503053684947829e-17, 4.414348323093937e-18,
    7.5172963110113977e-18,
};
/* (1 + 2x) erfcx(x) on [0, inf), in (x - 3.75) / (x + 3.75) */
static const double ERFCX[] = {
    1.1775789345674018,     -4.5900545806464773e-3,  -8.4249133366517916e-2,  5.920993999819189e-2,
    -2.6658668435305752e-2, 9.0749976707052651e-3,   -2.4131635404176082e-3,  4.9077583652580863e-4,
    -6.9169733025012064e-5, 4.1390279860730102e-6,   7.7403830661984907e-7,   -2.1886401049234396e-7,
    1.076499946567091e-8,   4.5219598112182869e-9,   -7.7544002088313511e-10, -6.3180883408866845e-11,
    2.8687950109306699e-11, 1.9455868545777347e-13,  -9.6546967484334389e-13, 3.2525481481487398e-14,
    3.3478119482868054e-14, -1.8645628804193131e-15, -1.2507950530688647e-15, 7.4182352566240435e-17,
    5.0681489047961113e-17,
};
/* (z - log(z) / z - x) z on [2, 8], in 1 / z scaled to [-1, 1], where Phi(-x) = exp(-z^2 / 2) */
static const double NDTRI_NEAR[] = {
    1.0323738340148971,     7.255464837448264e-2,    -1.0442766591353358e-3, -1.1057060922319903e-4,
    5.2649144423010382e-5,  -1.6126373143885155e-5,  4.2407481768043199e-6,  -1.035141917428997e-6,
    2.4648258665580152e-7,  -5.9182357415732588e-8,  1.4585713938895267e-8,  -3.7066472356991291e-9,
    9.6796656844592411e-10, -2.5822724711374293e-10, 7.0020800332117665e-11, -1.9237114577462761e-11,
    5.345194762585066e-12,  -1.5005386530215093e-12, 4.2525805368601178e-13, -1.2157759092208811e-13,
    3.5036106537661562e-14, -1.0169776280334681e-14, 2.9712387491616966e-15, -8.732286753112015e-16,
    2.5802053530051285e-16, -7.6616331124805088e-17, 2.2853938553279491e-17,
};
/* the same on [8, 64] */
static const double NDTRI_FAR[] = {
    9.3895353640905763e-1,  1.9192291300456494e-2,   1.0174574218843109e-3,  -2.455578802516048e-4,
    5.1646036389628285e-5,  -1.1949389704508224e-5,  3.1216046195177762e-6,  -9.001673040291452e-7,
    2.7936975218892233e-7,  -9.1648197334537493e-8,  3.1390685760183144e-8,  -1.1127947291038884e-8,
    4.056907839474949e-9,   -1.5137895873223438e-9,  5.760176138732107e-10,  -2.2287524643942096e-10,
    8.7488891023176455e-11, -3.4778222557681528e-11, 1.3978731148683609e-11, -5.6739846705031282e-12,
    2.3233279767296498e-12, -9.5884129698573829e-13, 3.9853375139219618e-13, -1.6671704188672669e-13,
    7.0152578502720889e-14, -2.9678350853981487e-14, 1.2617650131841517e-14, -5.3888010927025481e-15,
    2.3111709228277815e-15, -9.9509758801942612e-16, 4.3000583850196485e-16, -1.8644532948647369e-16,
    8.1096294525258228e-17, -3.5378210619214589e-17, 1.5476654290125406e-17,
};

/* By Clenshaw's recurrence. */
tpj_value *tpj_chebyshev(tpj_hlo *h, const double *coefficients, int n, tpj_value *t) {
    double largest = 0;
    for (int i = 0; i < n; i++) largest = fmax(largest, fabs(coefficients[i]));
    double enough = t->type.dtype == TPJ_F64 ? 0 : 1e-9 * largest;
    while (n > 1 && fabs(coefficients[n - 1]) < enough) n--;
    tpj_value *twice = times(h, t, 2), *b1 = hlo_full_like(h, t, 0), *b2 = b1;
    for (int i = n - 1; i > 0; i--) {
        tpj_value *b = plus(h, hlo_sub(h, hlo_mul(h, twice, b1), b2), coefficients[i]);
        b2 = b1;
        b1 = b;
    }
    return plus(h, hlo_sub(h, hlo_mul(h, t, b1), b2), coefficients[0]);
}

tpj_value *tpj_polynomial(tpj_hlo *h, const double *coefficients, int n, tpj_value *x) {
    tpj_value *y = hlo_full_like(h, x, coefficients[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = plus(h, hlo_mul(h, y, x), coefficients[i]);
    return y;
}

tpj_value *tpj_bessel_i(tpj_hlo *h, tpj_value *x, int order, bool scaled) {
    tpj_value *size = hlo_abs(h, x), *near_t = plus(h, times(h, size, 0.25), -1),
              *far_t = plus(h, over(h, 16, size), -1);
    tpj_value *near = order == 0 ? tpj_chebyshev(h, I0_NEAR, TPJ_LENGTH(I0_NEAR), near_t)
                                 : hlo_mul(h, tpj_chebyshev(h, I1_NEAR, TPJ_LENGTH(I1_NEAR), near_t), size);
    tpj_value *far = order == 0 ? tpj_chebyshev(h, I0_FAR, TPJ_LENGTH(I0_FAR), far_t)
                                : tpj_chebyshev(h, I1_FAR, TPJ_LENGTH(I1_FAR), far_t);
    tpj_value *y = hlo_select(h, tpj_compare_number(h, "LE", size, 8), near, hlo_mul(h, far, hlo_rsqrt(h, size)));
    if (!scaled) y = hlo_mul(h, y, hlo_exp(h, size));
    return order == 0 ? y : hlo_select(h, tpj_compare_number(h, "LT", x, 0), hlo_neg(h, y), y);
}

tpj_value *tpj_erfcx(tpj_hlo *h, tpj_value *x) {
    tpj_value *size = hlo_abs(h, x);
    tpj_value *t = hlo_sub(h, tpj_like(h, x, 1), over(h, 7.5, plus(h, size, 3.75)));
    tpj_value *y = hlo_div(h, tpj_chebyshev(h, ERFCX, TPJ_LENGTH(ERFCX), t), plus(h, times(h, size, 2), 1));
    tpj_value *mirrored = hlo_sub(h, times(h, hlo_exp(h, hlo_mul(h, x, x)), 2), y);
    return hlo_select(h, tpj_compare_number(h, "LT", x, 0), mirrored, y);
}

/* log of the normal distribution function: through erfcx where that function is small. */
tpj_value *tpj_log_ndtr(tpj_hlo *h, tpj_value *x) {
    tpj_value *t = times(h, x, SQRT_HALF);
    tpj_value *tail = hlo_sub(h, hlo_log(h, times(h, tpj_erfcx(h, hlo_neg(h, t)), 0.5)), hlo_mul(h, t, t));
    tpj_value *rest = hlo_unary(h, "log_plus_one", times(h, hlo_unary(h, "chlo.erfc", t), -0.5));
    return hlo_select(h, tpj_compare_number(h, "LT", x, -1), tail, rest);
}

/* ---- Hurwitz's zeta function ---- */

typedef struct zeta_context {
    tpj_value *s;
} zeta_context;

/* (the sum so far, the argument, the number of terms): CHLO's series is accurate from 9 on. Terms are limited, because far
 * below zero a float plus one is itself. */
enum { ZETA_START = 9, ZETA_TERMS = 4096 };

static void zeta_condition(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    (void)context;
    tpj_value *more = hlo_reduce_all(h, "or", tpj_compare_number(h, "LE", arguments[1], ZETA_START));
    results[0] = hlo_and(h, more, tpj_compare_number(h, "LT", arguments[2], ZETA_TERMS));
}

static void zeta_term(tpj_hlo *h, tpj_value *const *arguments, tpj_value **results, void *context) {
    const zeta_context *zeta = context;
    tpj_value *q = arguments[1], *low = tpj_compare_number(h, "LE", q, ZETA_START);
    tpj_value *term = hlo_pow(h, q, hlo_neg(h, zeta->s));
    results[0] = hlo_add(h, arguments[0], tpj_select_or(h, low, term, 0));
    results[1] = hlo_add(h, q, hlo_convert(h, low, q->type.dtype));
    results[2] = hlo_add(h, arguments[2], hlo_integer(h, TPJ_I32, 1));
}

/* sum over k >= 0 of 1 / (q + k)^s */
tpj_value *tpj_zeta(tpj_hlo *h, tpj_value *s, tpj_value *q) {
    zeta_context context = {s};
    tpj_value *initial[] = {hlo_full_like(h, q, 0), q, hlo_integer(h, TPJ_I32, 0)}, *out[3];
    hlo_while(h, initial, 3, zeta_condition, zeta_term, &context, out);
    tpj_value *y = hlo_add(h, out[0], hlo_binary(h, "chlo.zeta", s, out[1]));
    tpj_value *pole = hlo_and(h, tpj_compare_number(h, "LE", q, 0), hlo_compare(h, "EQ", q, hlo_unary(h, "floor", q)));
    pole = hlo_or(h, pole, tpj_compare_number(h, "EQ", s, 1));
    y = hlo_select(h, pole, tpj_like(h, y, HUGE_VAL), y);
    return hlo_select(h, tpj_compare_number(h, "LT", s, 1), tpj_like(h, y, NAN), y);
}

/* ---- the normal distribution ---- */

/* The argument of a series in u over z = 1 / u in [low, high]. */
static tpj_value *inverse_scaled(tpj_hlo *h, tpj_value *u, double low, double high) {
    double from = 1 / high, to = 1 / low;
    return times(h, plus(h, u, -(from + to) / 2), 2 / (to - from));
}

/* The inverse of the normal distribution function. */
tpj_value *tpj_ndtri(tpj_hlo *h, tpj_value *p) {
    tpj_value *lower = tpj_compare_number(h, "LT", p, 0.5);
    tpj_value *tail = hlo_select(h, lower, p, hlo_sub(h, tpj_like(h, p, 1), p));
    tpj_value *z = hlo_sqrt(h, times(h, hlo_log(h, tail), -2)), *u = over(h, 1, z);
    tpj_value *correction = hlo_select(h, tpj_compare_number(h, "LT", z, 8),
                                       tpj_chebyshev(h, NDTRI_NEAR, TPJ_LENGTH(NDTRI_NEAR), inverse_scaled(h, u, 2, 8)),
                                       tpj_chebyshev(h, NDTRI_FAR, TPJ_LENGTH(NDTRI_FAR), inverse_scaled(h, u, 8, 64)));
    tpj_value *x = hlo_sub(h, z, hlo_mul(h, hlo_add(h, hlo_log(h, z), correction), u));
    x = hlo_select(h, tpj_compare_number(h, "EQ", tail, 0), tpj_like(h, p, HUGE_VAL), x);
    x = hlo_select(h, lower, hlo_neg(h, x), x);
    tpj_value *middle = times(h, hlo_unary(h, "chlo.erf_inv", plus(h, times(h, p, 2), -1)), 1 / SQRT_HALF);
    return hlo_select(h, tpj_compare_number(h, "GT", tail, exp(-2)), middle, x);
}

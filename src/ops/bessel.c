/* Bessel functions of orders 0 and 1, spherical Bessel and Airy functions, as PyTorch's CPU kernels have them: for F32 and
 * F64 alone.
 *
 * J, Y and Ai are Cephes' rational approximations (S. L. Moshier, Methods and Programs for Mathematical Functions, 1989).
 * Cephes' p1evl adds a highest coefficient of one to some denominators; PyTorch's kernels do not, and neither do these, so
 * that values are the same on every device: in F64 J and Y are off by up to 9e-7 near x = 5, and Ai by 3e-6 near x = -2.1.
 * The Chebyshev series (K, and Ai near zero) were computed with 40 digits from the defining formulas. */
#include <math.h>
#include <string.h>

#include "ops/series.h"

#define PI 3.14159265358979323846
#define SQRT_2_OVER_PI 0.79788456080286535588

/* J0(x) / ((x^2 - a^2) (x^2 - b^2)) on [0, 5], in x^2: numerator and denominator; a and b are the first zeros */
static const double J0_OVER[] = {
    9708622510473064.0,
    -249248344360967.72,
    1956174919465.5657,
    -4794432209.782018,
};
static const double J0_UNDER[] = {
    1.7108629408104315e+18, 3.1812195594320496e+16, 310518229857422.56, 2112775201154.892,
    11185553704.535683,     48440965.83399621,      173785.4016763747,  499.563147152651,
};
/* the same for order 1 */
static const double J1_OVER[] = {
    3682957328638529.0,
    -72749424522181.83,
    452228297998.19403,
    -899971225.7055594,
};
static const double J1_UNDER[] = {
    5.322786203326801e+18, 8.952223361846274e+16, 784369607876235.9,  4749141220799.914,
    22151159547.97925,     83514679.14319493,     256987.25675774884, 620.8364781180543,
};
/* Y0(x) - 2 / pi log(x) J0(x) on [0, 5], in x^2 */
static const double Y0_OVER[] = {
    -1.8495080043698668e+16, 4.4273326857256984e+16, -3466283033847297.0, 87590639439536.7,
    -982136065717.9115,      5435264770.518765,      -14663929.59039716,  15592.436785523574,
};
static const double Y0_UNDER[] = {
    2.5059625617265306e+17, 3171577528429750.5, 20297961275010.555, 86400248710.3935,
    268919633.39381415,     626107.330137135,   1041.2835366425984,
};
/* (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, likewise */
static const double Y1_OVER[] = {
    -7.788771962659501e+17, 2.024394757135949e+17, -8127702555013251.0,
    114509511541823.73,     -647355876379.1603,    1263204747.9017804,
};
static const double Y1_UNDER[] = {
    3.9727060811656064e+18, 6.871410873553005e+16, 620557727146953.8,  3882312774962.3857,
    18760131610.870617,     73481194.44597217,     235564.09294306856, 594.3015923461282,
};
/* P, and Q x / 5, on [5, inf) in 25 / x^2, where with c = x - pi / 4
 * J0 = sqrt(2 / (pi x)) (P cos c - Q sin c) and Y0 = sqrt(2 / (pi x)) (P sin c + Q cos c) */
static const double P0_OVER[] = {
    1.0,
    5.303240382353949,
    8.74716500199817,
    5.447250030587687,
    1.239533716464143,
    0.08283523921074408,
    0.0007969367292973471,
};
static const double P0_UNDER[] = {
    1.0,
    5.306052882353947,
    8.761908832370695,
    5.470977403304171,
    1.2535274390105895,
    0.08562884743544745,
    0.0009244088105588637,
};
static const double Q0_OVER[] = {
    -6.050143506007285, -51.41053267665993,  -147.07750515495118, -177.68116798048806,
    -93.20601521237683, -19.553954425773597, -1.2825271867050931, -0.011366383889846916,
};
static const double Q0_UNDER[] = {
    242.0057402402914,  2062.0933166032783, 5930.727011873169, 7240.467741956525,
    3882.4018360540163, 856.4300259769806,  64.3178256118178,
};
/* the same for order 1, with c = x - 3 pi / 4 */
static const double P1_OVER[] = {
    1.0,
    5.214515986823615,
    8.424045901417724,
    5.112079511468076,
    1.1271960812968493,
    0.07313970569409176,
    0.0007621256162081731,
};
static const double P1_UNDER[] = {
    1.0,
    5.209828486823619,
    8.399855543276042,
    5.073863861286015,
    1.105142326340617,
    0.06884559087544954,
    0.0005713231280725487,
};
static const double Q1_OVER[] = {
    25.207020585802372, 211.68875710057213, 597.4896124006136, 710.8563049989261,
    366.7796093601508,  75.82382841325453,  4.982138729512334, 0.05108625947501766,
};
static const double Q1_UNDER[] = {
    336.0936078106983, 2826.1927851763908, 7997.041604473507, 9562.318924047562,
    4986.410583376536, 1056.4488603826283, 74.23732770356752,
};
/* K0(x) + log(x / 2) I0(x) on [0, 2], in x^2 / 2 - 1 */
static const double K0_NEAR[] = {
    -0.26766369661695138,   0.34428989992462849,    0.035979936515361502,  0.0012646154114469259,
    2.2862121031194518e-5,  2.5347910790261495e-7,  1.9045163772202089e-9, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807509e-16,
};
/* exp(x) sqrt(x) K0(x) on [2, inf), in 4 / x - 1 */
static const double K0_FAR[] = {
    1.2201515410329777,     -0.031448101311964501,   0.0015698838857300534,  -0.00012849549581627803,
    1.3949813718876499e-5,  -1.8317555227191195e-6,  2.7668136394450151e-7,  -4.6604898976879477e-8,
    8.5740340174142261e-9,  -1.6975345093890615e-9,  3.5773972814003284e-10, -7.957489244477397e-11,
    1.8559491149549266e-11, -4.5145978833745192e-12, 1.1403405882073442e-12, -2.9800969231481784e-13,
    8.0328907750683744e-14, -2.2275133267462964e-14, 6.340076476276646e-15,  -1.8485933779209072e-15,
    5.5120559994043334e-16, -1.6782311257549006e-16, 5.2103917776435541e-17, -1.6475805939842633e-17,
};
/* (K1(x) - log(x / 2) I1(x)) x on [0, 2], in x^2 / 2 - 1 */
static const double K1_NEAR[] = {
    0.76265011366947389,     -0.35315596077654488,    -0.12261118082265715,    -0.0069757238596398644,
    -0.00017302889575130521, -2.4334061415659682e-6,  -2.2133876307347259e-8,  -1.4114883926335278e-10,
    -6.666901694199329e-13,  -2.4274498505193659e-15, -7.0238634793862876e-18,
};
/* exp(x) sqrt(x) K1(x) on [2, inf), in 4 / x - 1 */
static const double K1_FAR[] = {
    1.3603130952422213,      0.10392373657681724,    -0.0028578168596227794,  0.00019521551847135163,
    -1.936197974166083e-5,   2.4064849478372171e-6,  -3.5019606030878125e-7,  5.7410841254500493e-8,
    -1.0345762465678097e-8,  2.0150497551970346e-9,  -4.1903547593419256e-10, 9.2183151876053141e-11,
    -2.129967838427791e-11,  5.1396396734823435e-12, -1.2891739609498229e-12, 3.3484196660522431e-13,
    -8.9767051820101461e-14, 2.4771544242195987e-14, -7.0198370892147689e-15, 2.0387031662398609e-15,
    -6.0570472706430178e-16, 1.8380935752430454e-16, -5.6894628491936484e-17, 1.7940510478863573e-17,
};
/* Ai(x) on [-2.09, 2.09], Chebyshev in x / 2.09 */
static const double AIRY_MIDDLE[] = {
    0.25016415026992708,     -0.17464468551087151,    -0.13187875394222111,    0.11238869189900122,
    -0.022401282002655964,   -0.0069339786406212564,  0.0044920295159776268,   -0.00069681022532387927,
    -0.00013176487632834148, 7.3027212279304943e-5,   -9.5772930870931014e-6,  -1.2908837033474408e-6,
    6.4144349642829267e-7,   -7.4027315118368706e-8,  -7.7140198300729434e-9,  3.5244181782594438e-9,
    -3.6663365114328189e-10, -3.1052536795666145e-11, 1.3252061325307975e-11,  -1.2628686757488118e-12,
    -8.9930967949381048e-14, 3.6237691767896733e-14,  -3.2006117596763243e-15, -1.9637232380131061e-16,
    7.5301844560388795e-17,  -6.2189656969656655e-18,
};
/* 2 sqrt(pi) x^(1/4) exp(z) Ai(x) on [2.09, inf), in 1 / z, where z = 2/3 x^(3/2) */
static const double AIRY_RIGHT_OVER[] = {
    1.0,
    14.026469116338967,
    70.53609068404442,
    159.75639135016442,
    168.08922493463058,
    76.27960536152345,
    12.007595273964581,
    0.346538101525629,
};
static const double AIRY_RIGHT_UNDER[] = {
    1.0,
    14.095913560783403,
    71.47784008255756,
    164.2346928715297,
    177.31808814540045,
    84.51389701414746,
    14.75625625848472,
    0.5675945326387702,
};
/* (F - 1) z^2, and G z, on (-inf, -2.09] in 1 / z^2, where z = 2/3 |x|^(3/2) and
 * Ai(x) = |x|^(-1/4) / sqrt(pi) (F sin(z + pi / 4) - G cos(z + pi / 4)) */
static const double AIRY_F_OVER[] = {
    -1.6778769848911465e-08, -2.776491081552329e-06, -0.0001592764962392621,
    -0.004062659235948854,   -0.04919001326095003,   -0.2797799815451191,
    -0.6931580360369335,     -0.6264565444319123,    -0.1316963234183318,
};
static const double AIRY_F_UNDER[] = {
    4.5185009297058035e-07, 7.547203482874142e-05, 0.004402916416152112, 0.11568717379518804, 1.4752914677166642,
    9.187074029072596,      26.736704094149957,    32.682503279522464,   13.356042070655324,
};
static const double AIRY_G_OVER[] = {
    3.415517847659236e-10, 8.117892395543892e-08, 6.98793669997261e-06, 0.000282851600836737,
    0.005858041130483885,  0.06338889196289255,   0.35146565610554764,  0.9391692298166502,
    1.0657989759959559,    0.39110302961568827,   0.01973399320916857,
};
static const double AIRY_G_UNDER[] = {
    4.9183457006293e-09, 1.1716673321441352e-06, 0.00010125908511650914, 0.004126565238242226, 0.08645808263523921,
    0.9542936116189619,  5.476860694229755,      15.564662893286462,     19.835292871831214,   9.30892908077442,
};

#define SERIES(table, t) tpj_chebyshev(h, table, TPJ_LENGTH(table), t)
#define POLYNOMIAL(table, x) tpj_polynomial(h, table, TPJ_LENGTH(table), x)
/* The quotient of the tables NAME_OVER and NAME_UNDER. */
#define RATIONAL(name, x) hlo_div(h, POLYNOMIAL(name##_OVER, x), POLYNOMIAL(name##_UNDER, x))

/* The argument in the dtype of the result, F32 or F64; NULL (and the op fails) for others, which the CPU lacks too. */
static tpj_value *full_argument(tpj_emit *e) {
    const char *name = tpj_row(e)->params + strlen("T "); /* PyTorch calls it self in some of these, x in others */
    tpj_dtype dtype = tpj_float_dtype(e, tpj_in_type(e, name).dtype);
    if (dtype == TPJ_F32 || dtype == TPJ_F64) return tpj_in_as(e, name, dtype);
    tpj_fail_dtype(e, dtype);
    return NULL;
}

/* ---- J and Y ---- */

enum { LEAST_FAR = 5 };

/* J on [0, 5]. */
static tpj_value *near_j(tpj_hlo *h, tpj_value *x, int order) {
    static const double squared_zeros[2][2] = {{5.7831859629467845212, 30.471262343662086399},
                                               {14.681970642123893257, 49.21845632169460367}};
    tpj_value *square = hlo_mul(h, x, x);
    tpj_value *zeros = hlo_mul(h, plus(h, square, -squared_zeros[order][0]), plus(h, square, -squared_zeros[order][1]));
    return order == 0 ? hlo_mul(h, zeros, RATIONAL(J0, square))
                      : hlo_mul(h, hlo_mul(h, RATIONAL(J1, square), x), zeros);
}

/* Y on (0, 5]. */
static tpj_value *near_y(tpj_hlo *h, tpj_value *x, int order) {
    tpj_value *square = hlo_mul(h, x, x), *wave = hlo_mul(h, hlo_log(h, x), near_j(h, x, order));
    if (order == 0) return hlo_add(h, RATIONAL(Y0, square), times(h, wave, 2 / PI));
    tpj_value *pole = times(h, hlo_sub(h, wave, over(h, 1, x)), 2 / PI);
    return hlo_add(h, hlo_mul(h, x, RATIONAL(Y1, square)), pole);
}

/* J or Y on [5, inf). */
static tpj_value *far_wave(tpj_hlo *h, tpj_value *x, int order, bool second) {
    tpj_value *s = over(h, LEAST_FAR, x), *t = hlo_mul(h, s, s);
    tpj_value *p = order == 0 ? RATIONAL(P0, t) : RATIONAL(P1, t);
    tpj_value *q = hlo_mul(h, s, order == 0 ? RATIONAL(Q0, t) : RATIONAL(Q1, t));
    tpj_value *angle = plus(h, x, -(order == 0 ? PI / 4 : 3 * PI / 4));
    tpj_value *cosine = hlo_unary(h, "cosine", angle), *sine = hlo_unary(h, "sine", angle);
    tpj_value *wave = second ? hlo_add(h, hlo_mul(h, p, sine), hlo_mul(h, q, cosine))
                             : hlo_sub(h, hlo_mul(h, p, cosine), hlo_mul(h, q, sine));
    return hlo_div(h, times(h, wave, SQRT_2_OVER_PI), hlo_sqrt(h, x));
}

/* variant: the order. */
static void emit_bessel_j(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int order = tpj_row(e)->variant;
    tpj_value *x = full_argument(e);
    if (x == NULL) return;
    tpj_value *size = hlo_abs(h, x);
    tpj_value *y = hlo_select(h, tpj_compare_number(h, "LE", size, LEAST_FAR), near_j(h, size, order),
                              far_wave(h, size, order, false));
    tpj_out(e, order == 0 ? y : hlo_select(h, tpj_compare_number(h, "LT", x, 0), hlo_neg(h, y), y));
}

static void emit_bessel_y(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int order = tpj_row(e)->variant;
    tpj_value *x = full_argument(e);
    if (x == NULL) return;
    tpj_value *y =
        hlo_select(h, tpj_compare_number(h, "LE", x, LEAST_FAR), near_y(h, x, order), far_wave(h, x, order, true));
    tpj_out(e, hlo_select(h, tpj_compare_number(h, "EQ", x, 0), tpj_like(h, x, -HUGE_VAL), y));
}

/* ---- K ---- */

static tpj_value *near_k(tpj_hlo *h, tpj_value *x, int order) {
    tpj_value *t = plus(h, times(h, hlo_mul(h, x, x), 0.5), -1);
    tpj_value *growth = hlo_mul(h, hlo_log(h, times(h, x, 0.5)), tpj_bessel_i(h, x, order, false));
    if (order == 0) return hlo_sub(h, SERIES(K0_NEAR, t), growth);
    return hlo_add(h, growth, hlo_div(h, SERIES(K1_NEAR, t), x));
}

enum { K_SCALED = 2 };

/* variant: the order, and K_SCALED for exp(x) K(x). */
static void emit_bessel_k(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    int order = tpj_row(e)->variant & 1;
    bool scaled = tpj_row(e)->variant & K_SCALED;
    tpj_value *x = full_argument(e);
    if (x == NULL) return;
    tpj_value *t = plus(h, over(h, 4, x), -1), *near = near_k(h, x, order);
    tpj_value *far = hlo_div(h, order == 0 ? SERIES(K0_FAR, t) : SERIES(K1_FAR, t), hlo_sqrt(h, x));
    if (scaled)
        near = hlo_mul(h, near, hlo_exp(h, x));
    else
        far = hlo_mul(h, far, hlo_exp(h, hlo_neg(h, x)));
    tpj_value *y = hlo_select(h, tpj_compare_number(h, "LE", x, 2), near, far);
    tpj_out(e, hlo_select(h, tpj_compare_number(h, "EQ", x, 0), tpj_like(h, x, HUGE_VAL), y));
}

/* ---- spherical Bessel and Airy functions ---- */

static void emit_spherical_bessel_j0(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = full_argument(e);
    if (x == NULL) return;
    tpj_value *y = hlo_div(h, hlo_unary(h, "sine", x), x);
    y = hlo_select(h, tpj_compare_number(h, "EQ", x, 0), tpj_like(h, x, 1), y);
    tpj_out(e, hlo_select(h, tpj_is_infinite(h, x), tpj_like(h, x, 0), y));
}

#define AIRY_SMALL 2.09
#define AIRY_LAST 103.892 /* zero from here on */

/* z is 2/3 |x|^(3/2), and root is sqrt(|x|). */
static tpj_value *airy_right(tpj_hlo *h, tpj_value *z, tpj_value *root) {
    tpj_value *y = times(h, RATIONAL(AIRY_RIGHT, over(h, 1, z)), 0.5 / sqrt(PI));
    return hlo_mul(h, hlo_div(h, y, hlo_sqrt(h, root)), hlo_exp(h, hlo_neg(h, z)));
}

static tpj_value *airy_left(tpj_hlo *h, tpj_value *z, tpj_value *root) {
    tpj_value *s = over(h, 1, z), *t = hlo_mul(h, s, s), *angle = plus(h, z, PI / 4);
    tpj_value *f = plus(h, hlo_mul(h, t, RATIONAL(AIRY_F, t)), 1), *g = hlo_mul(h, s, RATIONAL(AIRY_G, t));
    tpj_value *sine = hlo_unary(h, "sine", angle), *cosine = hlo_unary(h, "cosine", angle);
    tpj_value *wave = hlo_sub(h, hlo_mul(h, f, sine), hlo_mul(h, g, cosine));
    return hlo_div(h, times(h, wave, 1 / sqrt(PI)), hlo_sqrt(h, root));
}

static void emit_airy_ai(tpj_emit *e) {
    tpj_hlo *h = tpj_builder(e);
    tpj_value *x = full_argument(e);
    if (x == NULL) return;
    tpj_value *size = hlo_abs(h, x), *root = hlo_sqrt(h, size);
    tpj_value *z = tpj_divide(h, hlo_mul(h, times(h, size, 2), root), tpj_like(h, x, 3));
    tpj_value *y = SERIES(AIRY_MIDDLE, times(h, x, 1 / AIRY_SMALL));
    y = hlo_select(h, tpj_compare_number(h, "LT", x, -AIRY_SMALL), airy_left(h, z, root), y);
    y = hlo_select(h, tpj_compare_number(h, "GT", x, AIRY_SMALL), airy_right(h, z, root), y);
    y = hlo_select(h, tpj_compare_number(h, "GT", x, AIRY_LAST), tpj_like(h, x, 0), y);
    tpj_out(e, hlo_select(h, tpj_is_infinite(h, x), tpj_like(h, x, NAN), y));
}

#define BESSEL(op, argument, function, ...) \
    {.name = op, .params = "T " argument, .emit = function, .layout = TPJ_LAYOUT_POINTWISE, __VA_ARGS__}

const tpj_op_def tpj_ops_bessel[] = {
    BESSEL("special_bessel_j0", "self", emit_bessel_j, .variant = 0),
    BESSEL("special_bessel_j1", "self", emit_bessel_j, .variant = 1),
    BESSEL("special_bessel_y0", "self", emit_bessel_y, .variant = 0),
    BESSEL("special_bessel_y1", "self", emit_bessel_y, .variant = 1),
    BESSEL("special_modified_bessel_k0", "self", emit_bessel_k, .variant = 0),
    BESSEL("special_modified_bessel_k1", "self", emit_bessel_k, .variant = 1),
    BESSEL("special_scaled_modified_bessel_k0", "x", emit_bessel_k, .variant = K_SCALED),
    BESSEL("special_scaled_modified_bessel_k1", "x", emit_bessel_k, .variant = K_SCALED | 1),
    BESSEL("special_spherical_bessel_j0", "x", emit_spherical_bessel_j0),
    BESSEL("special_airy_ai", "x", emit_airy_ai),
    {0},
};

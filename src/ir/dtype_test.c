#include "tpj/dtype.h"

#include "runner.h"

TEST(dtype_names_parse_back) {
    for (int i = 0; i < TPJ_N_DTYPES; i++) {
        tpj_dtype dtype = (tpj_dtype)i, parsed;
        const char *name = tpj_dtype_name(dtype);
        CHECK_OR(tpj_dtype_parse(name, strlen(name), &parsed), "%s does not parse", name);
        CHECK_INT(parsed, dtype);
    }
}

TEST(dtype_parse_takes_whole_names_only) {
    tpj_dtype dtype;
    CHECK(tpj_dtype_parse("f32x", 3, &dtype));
    CHECK_INT(dtype, TPJ_F32);
    CHECK(!tpj_dtype_parse("f32x", 4, &dtype));
    CHECK(!tpj_dtype_parse("f3", 2, &dtype));
    CHECK(!tpj_dtype_parse("", 0, &dtype));
}

TEST(dtype_facts) {
    CHECK_INT(tpj_dtype_bytes(TPJ_C128), 16);
    CHECK_INT(tpj_dtype_bytes(TPJ_I4), 1); /* on the host */
    CHECK_INT(tpj_dtype_bytes(TPJ_BOOL), 1);
    CHECK_STRING(tpj_dtype_mlir(TPJ_C64), "complex<f32>");
    CHECK_STRING(tpj_dtype_mlir(TPJ_U8), "ui8");
    CHECK(tpj_dtype_is_half(TPJ_BF16) && tpj_dtype_is_half(TPJ_F8E5M2));
    CHECK(!tpj_dtype_is_half(TPJ_F32) && !tpj_dtype_is_half(TPJ_I16));
    CHECK(tpj_dtype_is_integral(TPJ_BOOL) && tpj_dtype_is_unsigned(TPJ_BOOL));
    CHECK(!tpj_dtype_is_integral(TPJ_F16) && !tpj_dtype_is_unsigned(TPJ_I32));
    CHECK(tpj_dtype_is_complex(TPJ_C64) && !tpj_dtype_is_float(TPJ_C64));
}

TEST(dtype_carriers_have_the_same_width_and_spelling) {
    for (int i = 0; i < TPJ_N_DTYPES; i++) {
        tpj_dtype dtype = (tpj_dtype)i, carrier = tpj_dtype_carrier(dtype);
        CHECK_INT(tpj_dtype_carrier(carrier), carrier);
        CHECK_INT(tpj_dtype_bytes(carrier), tpj_dtype_bytes(dtype));
        CHECK_STRING(tpj_dtype_mlir(carrier), tpj_dtype_mlir(dtype));
        CHECK(!tpj_dtype_is_opaque(dtype) || carrier != dtype);
    }
    CHECK_INT(tpj_dtype_carrier(TPJ_C32), TPJ_U32);
    CHECK_INT(tpj_dtype_carrier(TPJ_F32), TPJ_F32);
}

TEST(dtype_out_of_range_is_invalid) {
    CHECK_STRING(tpj_dtype_name((tpj_dtype)TPJ_N_DTYPES), "invalid");
    CHECK_INT(tpj_dtype_bytes((tpj_dtype)-1), 0);
}

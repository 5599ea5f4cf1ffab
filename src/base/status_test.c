#include "runner.h"
#include "tpj/status.h"

static tpj_status *fail_if(bool fail) {
    if (fail) TPJ_ERROR(TPJ_INDEX, "index %d", 7);
    return NULL;
}

static tpj_status *pass_on(bool fail, int *n_done) {
    tpj_status *status = NULL;
    TPJ_TRY(fail_if(false));
    TPJ_TRY_GOTO(fail_if(fail));
    status = NULL;
done:
    ++*n_done;
    return tpj_status_annotate(status, "%s", "outer");
}

TEST(status_null_is_success) {
    CHECK(tpj_status_code(NULL) == TPJ_OK);
    CHECK_STRING(tpj_status_message(NULL), "");
    CHECK(tpj_status_annotate(NULL, "context") == NULL);
    tpj_status_destroy(NULL);
}

TEST(status_reads_from_the_outside_in) {
    tpj_status *status = tpj_status_create(TPJ_VALUE, "%d of %s", 3, "four");
    status = tpj_status_annotate(status, "inner %d", 1);
    status = tpj_status_annotate(status, "outer");
    CHECK(tpj_status_code(status) == TPJ_VALUE);
    CHECK_STRING(tpj_status_message(status), "outer: inner 1: 3 of four");
    tpj_status_destroy(status);
}

TEST(status_macros_leave_through_one_exit) {
    int n_done = 0;
    CHECK_OK(pass_on(false, &n_done));
    CHECK_ERROR(pass_on(true, &n_done), TPJ_INDEX, "outer: index 7");
    CHECK_INT(n_done, 2);
}

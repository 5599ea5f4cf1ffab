/* Status: the one way that functions of the core fail.
 *
 * A function that can fail returns `tpj_status *`: NULL is success, anything else is an error that the caller owns and
 * must either return, destroy or convert. Context is added once per layer with tpj_status_annotate, so that a message
 * reads from the cause outward:
 *
 *     add.Tensor(f32[4,8], f32[3]): sizes 8 and 3 do not broadcast at dimension 1
 *
 * Threads: a status belongs to one thread at a time. Running out of memory while an error is made returns a static
 * status that destroy accepts, so reporting never needs memory. */
#ifndef TPJ_STATUS_H
#define TPJ_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TPJ_MUST_USE __attribute__((warn_unused_result))
#define TPJ_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#define TPJ_API __attribute__((visibility("default")))
#else
#define TPJ_MUST_USE
#define TPJ_PRINTF(format_index, first_index)
#define TPJ_API
#endif

/* What kind of failure. The Python layer maps each to the exception that PyTorch's CPU kernels raise (given beside). */
typedef enum tpj_code {
    TPJ_OK = 0,
    TPJ_RUNTIME,         /* RuntimeError: shapes, dtypes, devices or state do not fit */
    TPJ_TYPE,            /* TypeError */
    TPJ_VALUE,           /* ValueError */
    TPJ_INDEX,           /* IndexError: a dimension or an index is out of range */
    TPJ_LINALG,          /* torch.linalg.LinAlgError: a matrix has no such decomposition or inverse */
    TPJ_NOT_IMPLEMENTED, /* NotImplementedError */
    TPJ_OUT_OF_MEMORY,   /* torch.OutOfMemoryError */
    TPJ_UNAVAILABLE,     /* RuntimeError: no usable plugin or device */
    TPJ_DEVICE,          /* RuntimeError: the device or its compiler reported a failure */
    TPJ_INTERNAL,        /* RuntimeError: a defect of this library */
    TPJ_INTERRUPTED      /* the exception that the interruption has set, such as KeyboardInterrupt */
} tpj_code;

typedef struct tpj_status tpj_status;

/* A new error with a printf-style message. Never NULL. */
TPJ_API tpj_status *tpj_status_create(tpj_code code, const char *format, ...) TPJ_PRINTF(2, 3) TPJ_MUST_USE;
TPJ_API tpj_status *tpj_status_create_v(tpj_code code, const char *format, va_list args) TPJ_MUST_USE;

/* Put "context: " before the message. Takes `status` and returns it (NULL stays NULL). */
TPJ_API tpj_status *tpj_status_annotate(tpj_status *status, const char *format, ...) TPJ_PRINTF(2, 3) TPJ_MUST_USE;

/* Borrowed, valid until the status is destroyed or annotated. "" and TPJ_OK for NULL. */
TPJ_API const char *tpj_status_message(const tpj_status *status);
TPJ_API tpj_code tpj_status_code(const tpj_status *status);

/* Frees a status; NULL is allowed. */
TPJ_API void tpj_status_destroy(tpj_status *status);

/* The only macros of the project that touch control flow. TPJ_TRY is for places where nothing is owned yet;
 * TPJ_TRY_GOTO jumps to the function's one `done:` exit with `status` set; TPJ_ERROR returns a new error. */
#define TPJ_TRY(expression)                                \
    do {                                                   \
        tpj_status *tpj_try_status = (expression);         \
        if (tpj_try_status != NULL) return tpj_try_status; \
    } while (0)
#define TPJ_TRY_GOTO(expression)       \
    do {                               \
        status = (expression);         \
        if (status != NULL) goto done; \
    } while (0)
#define TPJ_ERROR(...) return tpj_status_create(__VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif

/* Protocol Buffers wire format, the writing half: fields are appended to a tpj_text in the order of the calls. A message
 * inside another is written to a text of its own and then added as bytes. The text's `failed` flag tells of memory that
 * ran out, once at the end. */
#ifndef TPJ_BASE_PROTOBUF_H
#define TPJ_BASE_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* bool, enum, int32, int64, uint32, uint64 (negative numbers as their 64-bit two's complement). */
void tpj_protobuf_integer(tpj_text *message, uint32_t field, int64_t value);
void tpj_protobuf_float(tpj_text *message, uint32_t field, float value);
void tpj_protobuf_double(tpj_text *message, uint32_t field, double value);
/* string, bytes, and messages that were written already. */
void tpj_protobuf_bytes(tpj_text *message, uint32_t field, const void *data, size_t n);
void tpj_protobuf_string(tpj_text *message, uint32_t field, const char *string);
void tpj_protobuf_message(tpj_text *message, uint32_t field, const tpj_text *inner);

#endif

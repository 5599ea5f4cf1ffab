/* The one place of the glue that names a type of PyTorch's Python binding: its exception for "a Python exception is set
 * already", which the binding turns into that exception (KeyboardInterrupt, mostly). Nothing of Python is called. */
#include <torch/csrc/Exceptions.h>

#include "glue.h"

void tpj_glue_throw_interruption() { throw python_error(); }

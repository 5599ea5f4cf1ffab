/* What every file of the glue includes in the end, compiled once: PyTorch's headers cost about ten seconds a file otherwise.
 * The Makefile puts it before each file; a file still includes what it uses, so that it also compiles without. */
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

/* NumPy's array interface in C: what `__array_struct__` gives, as NumPy's manual has it ("The array
   interface protocol", C-struct access). */

#ifndef HAULAGE_ARRAY_STRUCT_H
#define HAULAGE_ARRAY_STRUCT_H

#include <Python.h>
#include <stdint.h>

#define HAULAGE_C_CONTIGUOUS 0x1
#define HAULAGE_F_CONTIGUOUS 0x2
#define HAULAGE_WRITEABLE 0x400

typedef struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    intptr_t *shape;
    intptr_t *strides;
    void *data;
    PyObject *descr;
} haulage_array_struct;

#endif

/* Arithmetic that kernels call, as LLVM leaves it to functions with the names of the compilers'
   run-time libraries, which not every process has loaded. `FOR_KERNELS` has their addresses.

   Divisions of 128-bit integers, for which no processor has an instruction: LLVM makes such numbers
   of how often a loop turns that may end beyond 64 bits (`while i <= n`). And conversions between
   halves and wider floats, for processors that lack one of them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static unsigned_wide udivti3(unsigned_wide n, unsigned_wide d) { return n / d; }
static unsigned_wide umodti3(unsigned_wide n, unsigned_wide d) { return n % d; }
static wide divti3(wide n, wide d) { return n / d; }
static wide modti3(wide n, wide d) { return n % d; }

/* A half is passed in the lower 16 bits of the register that a float is passed in. Not every
   compiler has a type for it. */
static float
as_passed(uint32_t half)
{
    float passed;
    memcpy(&passed, &half, sizeof passed);
    return passed;
}

static uint32_t
bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t
bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The half that is nearest, of two the one whose last bit is 0. */
static float
truncdfhf2(double x)
{
    const uint64_t one_bit = UINT64_C(1) << 42; /* the last bit of a half, in a double's place */
    const uint64_t infinity = UINT64_C(0x7FF0000000000000);
    uint64_t bits = bits_of_double(x);
    uint64_t size = bits & INT64_MAX;
    uint32_t sign = bits >> 48 & 0x8000;
    double positive;

    if (size > infinity) /* not a number: a quiet one */
        return as_passed(sign | 0x7E00 | (bits >> 42 & 0x3FF));
    if (size >= UINT64_C(0x40EFFE0000000000)) /* 65520, the first that is rounded to infinity */
        return as_passed(sign | 0x7C00);
    if (size < UINT64_C(0x3F10000000000000)) { /* below 2**-14, the smallest normal half */
        /* A sum with 2**28 has its last bit where the smallest half has its only one. */
        memcpy(&positive, &size, sizeof positive);
        return as_passed(sign | (bits_of_double(positive + 0x1p28) & 0x7FF));
    }
    size -= UINT64_C(1008) << 52; /* the difference between the exponents' biases, 1023 and 15 */
    return as_passed(sign | (size + (one_bit / 2 - 1) + (size >> 42 & 1)) >> 42);
}

static float
truncsfhf2(float x)
{
    return truncdfhf2(x);
}

static float
extendhfsf2(float passed)
{
    uint32_t half = bits_of_float(passed) & 0xFFFF;
    uint32_t size = half & 0x7FFF;
    uint32_t bits;
    float x;

    if (size > 0x7C00) /* not a number: a quiet one */
        bits = size << 13 | 0x7FC00000;
    else if (size == 0x7C00)
        bits = 0x7F800000;
    else if (size >= 0x400)
        bits = (size << 13) + (UINT32_C(112) << 23); /* the biases are 127 and 15 */
    else
        bits = bits_of_float((float)size * 0x1p-24f);
    bits |= (half & 0x8000) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"__udivti3", (void (*)(void))udivti3},
    {"__umodti3", (void (*)(void))umodti3},
    {"__divti3", (void (*)(void))divti3},
    {"__modti3", (void (*)(void))modti3},
    {"__truncdfhf2", (void (*)(void))truncdfhf2},
    {"__truncsfhf2", (void (*)(void))truncsfhf2},
    {"__extendhfsf2", (void (*)(void))extendhfsf2},
};

static int
fill(PyObject *module)
{
    PyObject *addresses = PyDict_New();
    int failed = addresses == NULL;

    for (size_t at = 0; !failed && at < sizeof functions / sizeof *functions; at++) {
        PyObject *address = PyLong_FromVoidPtr((void *)functions[at].function);
        failed = address == NULL || PyDict_SetItemString(addresses, functions[at].name, address);
        Py_XDECREF(address);
    }
    failed = failed || PyModule_AddObjectRef(module, "FOR_KERNELS", addresses);
    Py_XDECREF(addresses);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "haulage._core.arithmetic", .m_slots = slots};

PyMODINIT_FUNC
PyInit_arithmetic(void)
{
    return PyModuleDef_Init(&definition);
}

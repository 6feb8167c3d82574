/* Of which sources the extension was built: see freshness.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static int
fill(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCES", HAULAGE_SOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "haulage._core.built", .m_slots = slots};

PyMODINIT_FUNC
PyInit_built(void)
{
    return PyModuleDef_Init(&definition);
}

cdef extern from "objects.h":
    object haulage_made(object kind)
    object haulage_made_of(object kind, tuple arguments)
    bint haulage_is_a(object thing, object kind) noexcept

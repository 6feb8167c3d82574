# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Launches: from the arguments to the driver, along a plan that was made for their kinds.

`launch` is the whole path. It asks each argument for its kind and its field of the argument block,
finds the plan for these kinds, and lets it pack the block and start the kernel. Python makes the
plans (`runtime.launch.plan`), classifies what is neither an array of a device nor a plain number
(`runtime.launch.kinds`), and launches what is to be captured, copied, or ordered with others' work.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from haulage._core.arrays cimport Header
from haulage._core.coherence cimport Moving, is_moving, release_all
from haulage._core.environment cimport Variable
from haulage._core.memory cimport (
    BlockBase,
    DeviceBase,
    RuntimeBase,
    block_type,
    current_device,
    current_runtime,
)
from haulage._core.objects cimport haulage_is_a
from haulage._core.packing cimport Packer
from haulage._core.starts cimport Start
from haulage._core.waits cimport is_stream_done


cdef extern from "calls.h":
    int haulage_call_at_once(
        object of, int (*at_once)(object, object) except -1, object brief, object shorten
    ) except -1


cdef extern from *:
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    object PyNumber_Index(object number)


cdef Variable _thread_way
cdef object _array_type, _stream_type, _int_kind, _nonnegative_int_kind
cdef object _classify, _wait_for, _call_all, _launch_error
cdef dict _classifiers, _number_kinds
cdef long long _nonnegative_end

# Of one kernel and configuration.
cdef int _MOST_PLANS = 1024
# Of one launch; each after the first is for a change of another thread's in between.
cdef int _MOST_ATTEMPTS = 100


def know(
    array_type, stream_type, Variable thread_way not None, classify, dict classifiers not None,
    dict number_kinds not None, tuple int_kinds not None, long long nonnegative_end, wait_for,
    call_all, launch_error,
):
    """Tell what launches ask Python for.

    Args:
        array_type, stream_type: `DeviceNDArray` and `Stream`.
        thread_way: `HAULAGE_CPU_THREADS`.
        classify: gives the kind of any value, and appends its fields to a list.
        classifiers: the same, by the exact type of values.
        number_kinds: by the exact type of numbers that are packed as they are, a pair: the kind of
            any one; and of integers, else None, that of one within 0 .. `nonnegative_end` - 1.
        int_kinds: the same of an `int` of 64 bits.
        wait_for: waits for a launch while some stream is captured.
        call_all: calls functions, the later ones too where one raises an error.
        launch_error: the class.
    """
    global _array_type, _stream_type, _thread_way, _classify, _classifiers, _number_kinds
    global _int_kind, _nonnegative_int_kind, _nonnegative_end, _wait_for, _call_all
    global _launch_error
    _array_type, _stream_type, _thread_way = array_type, stream_type, thread_way
    _classify, _classifiers, _number_kinds = classify, classifiers, number_kinds
    _int_kind, _nonnegative_int_kind = int_kinds
    _nonnegative_end, _wait_for, _launch_error = nonnegative_end, wait_for, launch_error
    _call_all = call_all


cdef class Part:
    """What a device array is in launches, which is kept with it: its kind, and its field of the
    argument block. It holds as long as `shape` and `strides` are those objects of the array."""

    def __init__(self, kind, shape, strides, bytes data not None):
        self.kind, self.shape, self.strides, self.data = kind, shape, strides, data


cdef Part _part_of(Header array):
    """The part that is kept with an array; None: there is none, or it does not hold any more."""
    cdef Part part = array._launch_part
    if part is not None and part.shape is array.shape and part.strides is array.strides:
        return part
    return None


cdef bytes _field_of(object array):
    """The field of a device array."""
    cdef Part part = _part_of(
        <Header>array if type(array) is _array_type else <Header?>array
    )
    cdef list fields
    if part is not None:
        return part.data
    fields = []
    _classify(array, fields)
    return fields[0]


cdef object _kind_of(object value, list fields):
    """The kind of an argument, whose fields of the argument block are appended to `fields`."""
    cdef int overflow = 0
    cdef long long number
    cdef PyObject *found
    cdef Part part
    cdef type of = type(value)
    if of is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            fields.append(value)
            return _nonnegative_int_kind if 0 <= number < _nonnegative_end else _int_kind
    elif of is not _array_type:
        found = PyDict_GetItemWithError(_number_kinds, of)
        if found != NULL:
            kinds = <tuple>found
            if kinds[1] is None:
                fields.append(value)
                return kinds[0]
            whole = PyNumber_Index(value)
            fields.append(whole)
            number = PyLong_AsLongLongAndOverflow(whole, &overflow)
            return kinds[0 <= number < _nonnegative_end]
    if of is _array_type or haulage_is_a(value, _array_type):
        part = _part_of(<Header>value)
        if part is not None:
            if (<BlockBase?>(<Header>value).block).closed is not False:
                value.block.use()
            fields.append(part.data)
            return part.kind
    elif is_moving(value) and (<Moving>value)._launch_kind is not None:
        fields.append(None)  # that is known once it is on the device
        return (<Moving>value)._launch_kind
    found = PyDict_GetItemWithError(_classifiers, of)
    if found != NULL:
        return (<object>found)(value, fields)
    return _classify(value, fields)


cdef tuple _kinds_of(LaunchedBase kernel, tuple args, list fields, tuple expected):
    """The kinds of arguments; `expected` itself if they are those, which may be None."""
    cdef Py_ssize_t number, before, count = len(args)
    cdef tuple kinds = None
    cdef object kind
    if expected is None or len(expected) != count:
        kinds = PyTuple_New(count)
    try:
        for number in range(count):
            kind = _kind_of(<object>args[number], fields)
            if kinds is None:
                if kind is <object>expected[number]:
                    continue
                kinds = PyTuple_New(count)
                for before in range(number):
                    Py_INCREF(<object>expected[before])
                    PyTuple_SET_ITEM(kinds, before, <object>expected[before])
            Py_INCREF(kind)
            PyTuple_SET_ITEM(kinds, number, kind)
    except TypeError as error:
        raise kernel.no_argument(args, error) from None
    return expected if kinds is None else kinds


def launch(LaunchedBase kernel not None, dict plans not None, configuration, stream, tuple args):
    """Start a kernel; returns before it has run where it can.

    Args:
        kernel: with one value of `args` for each of its parameters.
        plans: those known of this kernel and configuration, by the kinds of the arguments; and the
            one that was followed last, under None.
        configuration: whose stream does not count here.
        stream: as `Configuration` has it.

    Raises:
        LaunchError: the configuration or the arguments do not fit; nothing ran.
        DeviceMismatch: arrays and stream are of different devices; nothing ran.
        CompileError: the kernel cannot be compiled for these arguments.
    """
    _launch(kernel, plans, configuration, stream, args)


cdef int _launch(
    LaunchedBase kernel, dict plans, object configuration, object stream, tuple args
) except -1:
    cdef list fields = []
    cdef int made = 0
    cdef PyObject *known = PyDict_GetItemWithError(plans, None)
    cdef PlanBase plan = None if known == NULL else <PlanBase?><object>known
    cdef tuple expected = None if plan is None else plan._kinds
    cdef tuple kinds = _kinds_of(kernel, args, fields, expected)
    if kinds is not expected or plan is None:
        known = PyDict_GetItemWithError(plans, kinds)
        plan = None if known == NULL else <PlanBase?><object>known
        if plan is not None:
            plans[None] = plan
    while plan is None or not plan.launch(stream, args, fields):
        if made == _MOST_ATTEMPTS:
            raise _launch_error(
                f"kernel {kernel.__qualname__} was not launched: its code, or the device that is "
                f"meant, changed before each of {made} attempts; recompile it, or choose the "
                "device, while no other thread launches it"
            )
        made += 1
        plan = kernel.plan(configuration, stream, kinds, args)
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[kinds] = plans[None] = plan
    return 0


cdef class LaunchedBase:
    """What launches ask of a kernel.

    Attributes:
        chosen: the code chosen for keys; another dictionary once that does not hold any more.
        extensions: objects that make other arguments of those given.
        plain_count: how many arguments a call has that are taken as they are; None: none are.
        waits: whether the host waits for each launch.
        _configured: launchers by what stood in `kernel[...]`, in the default stream.
    """

    def known_launcher(self, given):
        """`kernel[given]`, where an equal configuration was given before; None: it takes more than
        a look."""
        cdef PyObject *found
        cdef LauncherBase known, made
        cdef object sizes
        cdef object key = given, stream = None, shared
        if type(given) is not tuple or not _has_plain_sizes(<tuple>given):
            return None
        if len(<tuple>given) > 2:
            stream = (<tuple>given)[2]
            shared = (<tuple>given)[3] if len(<tuple>given) == 4 else 0
            if len(<tuple>given) > 4 or type(stream) is not _stream_type or type(shared) is not int:
                return None
            key = ((<tuple>given)[0], (<tuple>given)[1], shared, stream._serial)
        found = PyDict_GetItemWithError(self._configured, key)
        if found == NULL or stream is None:
            return None if found == NULL else <object>found
        known = <LauncherBase?><object>found
        made = <LauncherBase?>type(known).__new__(type(known))
        made.kernel, made.plans = self, known.plans
        sizes = known.configuration
        made.configuration = tuple.__new__(type(sizes), (sizes[0], sizes[1], stream, sizes[3]))
        return made


cdef bint _has_plain_sizes(tuple given) noexcept:
    """Whether it begins with a grid and a block, each an int or a tuple of ints: others can be equal
    to them, as 1.0 and True are to 1."""
    cdef Py_ssize_t number, axis
    cdef object sizes
    if len(given) < 2:
        return False
    for number in range(2):
        sizes = <object>given[number]
        if type(sizes) is tuple:
            for axis in range(len(<tuple>sizes)):
                if type((<tuple>sizes)[axis]) is not int:
                    return False
        elif type(sizes) is not int:
            return False
    return True


def has_plain_sizes(given):
    """Whether it is a tuple that begins with a grid and a block, each an int or a tuple of ints, so
    that what is known of it can be looked up."""
    return type(given) is tuple and _has_plain_sizes(<tuple>given)


def in_place(DeviceBase device not None):
    """Whether kernels on `device` work on host arrays where they are.

    Never in the adversarial mode, so that programs which count on it fail there, nor where somebody
    wants to know what devices with memory of their own would copy.
    """
    cdef RuntimeBase runtime = current_runtime()
    return (
        runtime.adversary_seed is None
        and not runtime.apart
        and device.properties.host_memory_is_device_memory
    )


cdef class Movement:
    """What a kernel does with an argument that moves itself.

    Attributes:
        number: of the argument in the block.
        writes, used: whether it is written to, and whether it is used at all.
        mode: the same as `__haulage_acquire__` takes it.
        use: the same as an `compiler.access.model.Access`, if that is known.
        hint: `In`, `Out` or `InOut`, if it was given so.
    """

    def __init__(self, Py_ssize_t number, str mode not None, use, hint):
        self.number, self.mode, self.use, self.hint = number, mode, use, hint
        self.writes, self.used = mode == "rw", mode != "none"


cdef class PlanBase:
    """What of a plan each launch follows.

    Attributes:
        _kernel, _device, _kinds: of its launches: the kinds of their arguments.
        _chosen, _way, _checker: the kernel's `chosen`, the way of the CPU's threads, and who checks
            launches, that it was made for.
        _current: the current device, where the choice depends on it.
        _on_host, _in_place: whether some argument is a host array, and whether these are used where
            they are.
        _apart: whether some array is on another device: `_place_of(args)` says where it runs then.
        _flat, _arrays, _captured: which memory the kernel uses: that of the arguments with these
            numbers, where some are tuples of their entries, and that of arrays of its code.
        _notes: whether the use of memory is noted in the default stream, too.
        _placed: not None: `_launch_placed(stream, args)` launches, with what the arguments are once
            they are on the device.
        _special: whether there is any of these, by the number of the argument in the block:
        _moving: a `Movement` of each array that moves itself.
        _ordered: arrays of other libraries, whose field is (bytes, whose stream).
        _conversions: (number, what makes the field of the value that is given).
        _packer, _start: make the argument block, and start the kernel.
        _waits: whether the host waits for each launch.
    """

    cdef bint launch(self, object given, tuple args, list fields) except -1:
        """Start the kernel in the stream that `given` names, with arguments of the plan's kinds,
        whose fields of the argument block are `fields`.

        False if nothing was done, as the plan does not hold any more: its code, its device or what
        it does with host arrays are not those that would be chosen now.
        """
        cdef RuntimeBase runtime = current_runtime()
        cdef unsigned long long handle = 0
        if (
            self._chosen is not self._kernel.chosen
            or self._way != _thread_way.text()
            or self._checker is not runtime.checker
            or not self._holds_now(args)
        ):
            return False
        if runtime.captures:
            stream = self._taking_work(given)
            handle = stream.handle
        elif given is None or (type(given) is int and given == 0):
            stream = (<DeviceBase>self._device).default_stream
        else:
            stream = given if haulage_is_a(given, _stream_type) else self._known(given)
            handle = stream.handle
        # A graph cannot be ordered with other libraries' streams: their arrays are opened for it.
        if self._placed is not None or (
            self._ordered
            and (<DeviceBase>self._device).capturing
            and handle in (<DeviceBase>self._device).capturing
        ):
            self._launch_placed(stream, args)
        else:
            if handle or self._notes:
                self._note(stream, handle, args)
            if self._special:
                self._start_specially(stream, handle, args, fields)
            else:
                self._begin(handle, self._packed(fields))
        if self._waits:
            if runtime.captures:
                _wait_for(stream)
            elif not is_stream_done(self._device, handle):
                stream.finish()
        return True

    cdef int _start_specially(
        self, object stream, unsigned long long handle, tuple args, list fields
    ) except -1:
        """Start the kernel with arguments some of which move themselves, are other libraries', or
        have to be converted."""
        cdef tuple each = args if self._flat else tuple(self._leaves(args))
        cdef object array, there, producer, convert
        cdef object held = None  # what has to stay on the device
        cdef Moving written = None
        cdef list others = None, dones = None, more, producers = None
        cdef bint handed = False
        cdef Py_ssize_t number
        cdef Movement one
        try:
            for one in self._moving:
                array, there = each[one.number], None
                if one.hint is None and is_moving(array):
                    there = (<Moving>array).acquire_at_once(
                        self._device, stream, handle, one.writes, one.used, 2
                    )
                    if one.writes and there is not None:
                        if written is None:
                            written = <Moving>array
                        elif others is None:
                            others = [array]
                        else:
                            others.append(array)
                if there is None:
                    if dones is None:
                        dones = []
                    there = self._acquired(
                        stream, args, each, array, one.mode, one.use, one.hint, dones
                    )
                    if handle:
                        there.block.use(stream)
                held = there if held is None else (held, there)
                fields[one.number] = _field_of(there)
            if self._ordered:
                producers = []
                for number in self._ordered:
                    fields[number], producer = fields[number]
                    if producer is not None and producer not in producers:
                        producers.append(producer)
            for number, convert in self._conversions:
                fields[number] = convert(fields[number])
            if producers:
                self._start_in_order(handle, self._packed(fields), producers)
            else:
                self._begin(handle, self._packed(fields))
            handed = True
        finally:
            # Also when it failed or was interrupted: a part of it may have run.
            if written is not None:
                more = release_all(written, others, self._device, stream, handle)
                if more is not None:
                    dones = more if dones is None else dones + more
            if dones is not None:
                _call_all(dones, handed)
        return 0

    cdef bytes _packed(self, list fields):
        cdef bytes block = self._packer.pack(fields)
        return self._converted(fields) if block is None else block

    cdef int _begin(self, unsigned long long handle, bytes block) except -1:
        start = self._start
        if isinstance(start, Start):
            (<Start>start).start(handle, block)
        else:
            start(handle, block)
        return 0

    cdef bint _holds_now(self, tuple args) except -1:
        """Whether the device, and what is done with host arrays, are what would be chosen now."""
        return (
            (self._current is None or self._current is current_device())
            and (not self._on_host or self._in_place == in_place(self._device))
            and (not self._apart or self._device is self._place_of(args))
        )

    cdef int _note(self, object stream, unsigned long long handle, tuple args) except -1:
        """Note which memory the stream uses."""
        cdef DeviceBase device = stream.device
        cdef object each = args if self._flat else self._leaves(args)
        for number in self._arrays:
            _note_use(each[number].block, device, stream, handle)
        for array in self._captured:
            _note_use(array.block, device, stream, handle)
        return 0


cdef int _note_use(
    object used, DeviceBase device, object stream, unsigned long long handle
) except -1:
    """`used.use(stream)`, at once where it is noted already, or need not be."""
    cdef BlockBase block
    cdef bint is_own
    if type(used) is block_type():
        block = <BlockBase>used
        is_own = device is block.device
        if (
            block.closed is False
            and not device.capturing
            and (
                stream is block.home
                or (is_own and not handle)
                or (block.streams is not None and (handle if is_own else stream) in block.streams)
            )
        ):
            return 0
    used.use(stream)
    return 0


cdef class LauncherBase:
    """A kernel with a configuration, None for one of no threads; `plans` are those of launches with
    the same configuration."""

    def launch_plainly(self, tuple args not None):
        """Launch with arguments that are taken as they are; False, and nothing is done, if there
        are none such."""
        return bool(_launch_plainly(self, args))


cdef int _launch_plainly(object launcher, object args) except -1:
    cdef LauncherBase own = <LauncherBase>launcher
    cdef LaunchedBase kernel = own.kernel
    if (
        kernel.extensions
        or kernel.plain_count is None
        or len(<tuple>args) != kernel.plain_count
    ):
        return 0
    if own.configuration is not None:
        _launch(kernel, own.plans, own.configuration, own.configuration.stream, <tuple>args)
    return 1


def call_plainly(launchers, brief, shorten):
    """Let calls of the objects of a class of launchers begin with `launch_plainly`, without Python.

    Where that does nothing, their `__call__` is called; as it does, an error of class `brief` is
    given to `shorten`.
    """
    if not issubclass(launchers, LauncherBase):
        raise TypeError(f"{launchers} is no class of launchers")
    haulage_call_at_once(launchers, _launch_plainly, brief, shorten)

"""What the results of `vectorize` and `guvectorize` have in common."""

from collections.abc import Callable
from typing import Any

from haulage.kernel import Vocabulary
from haulage.kernel.pickling import PickledFunction
from haulage.kernel.vocabulary import VOCABULARIES
from haulage.lib.ufuncs.choosing import Signature
from haulage.lib.ufuncs.launching import Kernels, checked_block_size
from haulage.lib.ufuncs.plans import Plans


class ArrayFunction(PickledFunction):
    """A function of elements, or of small arrays, that works on whole arrays.

    Args:
        function: a Python function, or a device function.
        vocabulary: whose words it may use.
        nin, nout: how many inputs and outputs it has.
        identity: what a reduction by it gives for no elements, None for an error.
        cache: whether its kernels are kept on disk.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        vocabulary: Vocabulary,
        nin: int,
        nout: int,
        identity: int | None,
        cache: bool,
    ) -> None:
        self.py_func = getattr(function, "py_func", function)
        self.identity = identity
        self.__name__ = self.py_func.__name__
        self.__qualname__ = self.py_func.__qualname__
        self.__doc__ = self.py_func.__doc__
        self.__module__ = self.py_func.__module__
        self.nin, self.nout, self.nargs = nin, nout, nin + nout
        self._function = function
        self._kernels = Kernels(vocabulary, cache)
        self._signatures: list[Signature] = []
        # As they were written, for pickling.
        self._declared: list[Any] = []
        self._most_threads = 2**30
        self._plans = Plans()

    @property
    def types(self) -> list[str]:
        """Its signatures in NumPy's letters, such as 'ff->f'."""
        return [str(signature) for signature in self._signatures]

    @property
    def ntypes(self) -> int:
        """How many signatures it has."""
        return len(self._signatures)

    @property
    def max_blocksize(self) -> int:
        """The most threads that a block has when it runs; can be set.

        Raises:
            TypeError, ValueError: when set to what is no int of at least 1.
        """
        return self._most_threads

    @max_blocksize.setter
    def max_blocksize(self, most: int) -> None:
        self._most_threads = checked_block_size(most)
        self._plans.clear()

    def _state(self) -> tuple[Any, ...]:
        kernels = self._kernels
        own = (self._declared, self.identity, kernels.cache)
        return self._layout(), self._function, kernels.vocabulary.name, own, self._most_threads

    def _layout(self) -> tuple[str, ...]:
        """What the class takes between the vocabulary and the signatures."""
        return ()

    @classmethod
    def _rebuild(cls, *state: Any) -> Any:
        layout, function, vocabulary, own, most_threads = state
        made: Any = cls(function, VOCABULARIES[vocabulary], *layout, *own)
        made.max_blocksize = most_threads
        return made

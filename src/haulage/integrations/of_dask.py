"""What Dask and `distributed` are told of Haulage's arrays: how to send, hash, weigh and join them.

Each function gets a module of theirs. All is registered for the day that one of our classes is
met (`register_lazy`), so that a program with Dask and without our arrays imports none of them.
"""

from types import ModuleType


def frames(module: ModuleType) -> None:
    """The family "dask" of serialisers, in `distributed.protocol.serialize`."""

    def register() -> None:
        from haulage.integrations import dask_frames

        for kind, (send, receive) in dask_frames.BY_CLASS.items():
            module.dask_serialize.register(kind, send)
            module.dask_deserialize.register(kind, receive)

    module.dask_serialize.register_lazy("haulage", register)
    module.dask_deserialize.register_lazy("haulage", register)


def cuda_frames(module: ModuleType) -> None:
    """The family "cuda", in `distributed.protocol.cuda`."""

    def register() -> None:
        from haulage.integrations import dask_frames

        for kind, (send, receive) in dask_frames.CUDA_BY_CLASS.items():
            module.cuda_serialize.register(kind, send)
            module.cuda_deserialize.register(kind, receive)

    module.cuda_serialize.register_lazy("haulage", register)
    module.cuda_deserialize.register_lazy("haulage", register)


def tokens(module: ModuleType) -> None:
    """`dask.tokenize`, which hashes."""

    def register() -> None:
        from haulage.integrations import dask_tokens

        for kind, token in dask_tokens.TOKENS.items():
            module.normalize_token.register(kind, token)

    module.normalize_token.register_lazy("haulage", register)


def sizes(module: ModuleType) -> None:
    """`dask.sizeof`."""

    def register() -> None:
        from haulage.integrations import dask_tokens

        for kind, size in dask_tokens.SIZES.items():
            module.sizeof.register(kind, size)

    module.sizeof.register_lazy("haulage", register)


def arrays(module: ModuleType) -> None:
    """How `dask.array` joins blocks."""

    def register() -> None:
        from haulage.integrations import dask_blocks

        for kind, function in dask_blocks.CONCATENATE.items():
            module.concatenate_lookup.register(kind, function)

    module.concatenate_lookup.register_lazy("haulage", register)

"""What translated code knows of the functions in C: their declarations, and the thread's fields."""

# Field of `struct thread` -> (offset, LLVM type).
FIELDS: dict[str, tuple[int, str]] = {
    **{
        f"{name}.{axis}": (first + 4 * number, "i32")
        for name, first in (("tid", 0), ("ntid", 12), ("ctaid", 24), ("nctaid", 36))
        for number, axis in enumerate("xyz")
    },
    "laneid": (48, "i32"),
    "warpid": (52, "i32"),
    "nwarpid": (56, "i32"),
    "shared": (64, "i64"),
    "total_smem_size": (72, "i32"),
    "dynamic_smem_size": (76, "i32"),
    "params": (80, "i64"),
    "stack_low": (88, "i64"),
    "stack_high": (96, "i64"),
    "envreg1": (104, "i32"),
    "envreg2": (108, "i32"),
}

# Nothing but the result comes of these.
_PURE = "nounwind willreturn memory(none)"

_32_BITS = (
    *("ptx_sin", "ptx_cos", "ptx_lg2", "ptx_ex2", "ptx_tanh", "ptx_rsqrt"),
    *("ptx_sqrt", "ptx_rcp"),
)

DECLARATIONS: dict[str, str] = {
    "ptx_f32": f"declare float @ptx_f32(i32, i32, float, float, float) {_PURE}",
    "ptx_f64": f"declare double @ptx_f64(i32, i32, double, double, double) {_PURE}",
    "ptx_narrowed": f"declare float @ptx_narrowed(i32, double) {_PURE}",
    "ptx_integer_as_f64": f"declare double @ptx_integer_as_f64(i32, i32, i64) {_PURE}",
    "ptx_integer_as_f32": f"declare float @ptx_integer_as_f32(i32, i32, i64) {_PURE}",
    "ptx_integer_as_16": f"declare zeroext i16 @ptx_integer_as_16(i32, i32, i32, i64) {_PURE}",
    "ptx_widened": f"declare double @ptx_widened(i32, i16 zeroext) {_PURE}",
    "ptx_rounded": f"declare zeroext i16 @ptx_rounded(i32, i32, double) {_PURE}",
    "ptx_arithmetic": "declare zeroext i16 @ptx_arithmetic"
    f"(i32, i32, i32, i16 zeroext, i16 zeroext, i16 zeroext) {_PURE}",
    **{name: f"declare float @{name}(float) {_PURE}" for name in _32_BITS},
    "ptx_div_full": f"declare float @ptx_div_full(float, float) {_PURE}",
    "ptx_div_approx": f"declare float @ptx_div_approx(float, float) {_PURE}",
    "ptx_gross_rcp": f"declare double @ptx_gross_rcp(double) {_PURE}",
    "ptx_rsqrt_f64": f"declare double @ptx_rsqrt_f64(double) {_PURE}",
    "ptx_gross_rsqrt": f"declare double @ptx_gross_rsqrt(double) {_PURE}",
    "ptx_bfe": f"declare i64 @ptx_bfe(i32, i32, i64, i32, i32) {_PURE}",
    "ptx_bfi": f"declare i64 @ptx_bfi(i32, i64, i64, i32, i32) {_PURE}",
    "ptx_prmt": f"declare i32 @ptx_prmt(i32, i32, i32, i32) {_PURE}",
    "ptx_dp4a": f"declare i32 @ptx_dp4a(i32, i32, i32, i32) {_PURE}",
    "ptx_dp2a": f"declare i32 @ptx_dp2a(i32, i32, i32, i32, i32) {_PURE}",
    "ptx_barrier": "declare i32 @ptx_barrier(ptr, i32, i32, i32, i32, i32, i32) nounwind",
    "ptx_barrier_arrive": "declare void @ptx_barrier_arrive(ptr, i32, i32, i32, i32) nounwind",
    "ptx_warp": "declare i32 @ptx_warp(ptr, i32, i64, i32, i32, i32, i32, ptr) nounwind",
    "ptx_activemask": "declare i32 @ptx_activemask(ptr, i32) nounwind",
    "ptx_patience": "declare void @ptx_patience(ptr) nounwind",
    "ptx_pause": "declare void @ptx_pause(ptr) nounwind",
    "ptx_exit": "declare void @ptx_exit(ptr) nounwind noreturn cold",
    "ptx_trap": "declare void @ptx_trap(ptr, i32) nounwind noreturn cold",
    "ptx_bad_access": "declare void @ptx_bad_access(ptr, i32, i32, i64, i32) "
    "nounwind noreturn cold",
    "ptx_wrote": "declare void @ptx_wrote(ptr, ptr, i32) nounwind",
    "ptx_stays": "declare void @ptx_stays(ptr, ptr, i32, i32) nounwind",
    "ptx_nanoseconds": "declare i64 @ptx_nanoseconds() nounwind",
    "ptx_run": "declare i64 @ptx_run(ptr, i32, i64, ptr, i64, i64, i32)",
}

# What each `which` and `kind` of the C functions is.
BARRIER_RESULTS = {"popc": 0, "and": 1, "or": 2}
WARP_KINDS = {
    name: number
    for number, name in enumerate(
        (
            *("sync", "shfl.up", "shfl.down", "shfl.bfly", "shfl.idx"),
            *("vote.all", "vote.any", "vote.uni", "vote.ballot"),
            *("match.any", "match.all", "redux", "elect"),
        )
    )
}
REDUX = {
    name: number
    for number, name in enumerate(
        ("add", "min.u", "max.u", "min.s", "max.s", "and", "or", "xor"),
    )
}
ARITHMETIC = {
    name: number for number, name in enumerate(("add", "sub", "mul", "div", "fma", "sqrt"))
}
ROUNDINGS = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
PERMUTATIONS = {
    name: number for number, name in enumerate(("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
}
FORMATS = {"h": 0, "g": 1}
# Spaces whose accesses are refused.
SPACES = {"generic": 0, "shared": 1, "global": 2}

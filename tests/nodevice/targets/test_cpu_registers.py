"""Counting the registers that assembly names."""

import pytest

from haulage.targets.cpu_registers import registers


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("movl $1, (%rdi)\n movb %dil, %al\n addq %rax, %rdi", 2),
        ("pushq %r14\n movl %r14d, %r9d\n movw %r9w, %r8w\n movb %r8b, %r9b", 3),
        ("vaddps %ymm1, %xmm1, %zmm31\n vmovaps %xmm0, %xmm1{%k1}", 4),
        ("movq %rsp, %rbp\n movb %ah, %bl\n movsbl %sil, %esi", 5),
        ("jmp .LBB0_1 # r15 %tmp", 0),
    ],
)
def test_each_register_of_x86_counts_once(text, count):
    assert registers(text, "x86_64") == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("add x0, x1, x0\n ldr w1, [x2, #16]", 3),
        ("fadd v0.4s, v1.4s, v0.4s\n fmov d1, x1\n ldr q31, [sp]", 4),
        ("b .LBB0_1", 0),
    ],
)
def test_each_register_of_aarch64_counts_once(text, count):
    assert registers(text, "aarch64") == count

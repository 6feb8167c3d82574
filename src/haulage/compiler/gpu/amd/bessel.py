"""Bessel's functions of any order for AMD's GPUs, from those of orders 0 and 1.

AMD's library has no others. They come by the recurrence: upwards where that is stable, else
downwards from an order so high that the start does not matter, scaled by the sum of all even orders
(J. C. P. Miller's way).
"""

# How far above the order the way down begins: (the root of this many times the order).
_FAR = 400

DEFINITIONS = {
    "yn": """
define internal double @yn(i32 %n, double %x) nounwind {
entry:
  %y0 = call double @__ocml_y0_f64(double %x)
  %y1 = call double @__ocml_y1_f64(double %x)
  %step = fdiv double 2.0, %x
  br label %look
look:
  %k = phi i32 [ 0, %entry ], [ %k.next, %up ]
  %now = phi double [ %y0, %entry ], [ %following, %up ]
  %following = phi double [ %y1, %entry ], [ %next, %up ]
  ; What is infinite stays so: two such would leave no number.
  %endless = fcmp oeq double %now, 0xFFF0000000000000
  %there = icmp sge i32 %k, %n
  %done = or i1 %there, %endless
  br i1 %done, label %end, label %up
up:
  %k.next = add i32 %k, 1
  %order = sitofp i32 %k.next to double
  %factor = fmul double %order, %step
  %product = fmul double %factor, %following
  %next = fsub double %product, %now
  br label %look
end:
  ret double %now
}
declare double @__ocml_y0_f64(double)
declare double @__ocml_y1_f64(double)
""",
    "jn": f"""
define internal double @jn(i32 %n, double %given) nounwind {{
entry:
  %x = call double @llvm.fabs.f64(double %given)
  %j0 = call double @__ocml_j0_f64(double %x)
  %j1 = call double @__ocml_j1_f64(double %x)
  %step = fdiv double 2.0, %x
  %order = sitofp i32 %n to double
  %large = fcmp oge double %x, %order
  %few = icmp slt i32 %n, 2
  %is.up = or i1 %large, %few
  %is.number = fcmp ord double %x, %x
  %is.down = xor i1 %is.up, true
  %down.now = and i1 %is.down, %is.number
  %tiny = fcmp olt double %x, 1.0e-100
  br i1 %down.now, label %small, label %up
small:
  br i1 %tiny, label %end, label %start
up:
  %k = phi i32 [ 0, %entry ], [ %k.next, %up.on ]
  %now = phi double [ %j0, %entry ], [ %following, %up.on ]
  %following = phi double [ %j1, %entry ], [ %next, %up.on ]
  %there = icmp sge i32 %k, %n
  br i1 %there, label %end, label %up.on
up.on:
  %k.next = add i32 %k, 1
  %k.float = sitofp i32 %k.next to double
  %factor = fmul double %k.float, %step
  %product = fmul double %factor, %following
  %next = fsub double %product, %now
  br label %up
start:
  %far = fmul double %order, {_FAR}.0
  %root = call double @llvm.sqrt.f64(double %far)
  %more = fptosi double %root to i32
  %high = add i32 %n, %more
  %first = and i32 %high, -2
  br label %down
down:
  %m = phi i32 [ %first, %start ], [ %m.next, %down ]
  %above = phi double [ 0.0, %start ], [ %above.next, %down ]
  %here = phi double [ 1.0, %start ], [ %here.next, %down ]
  %found = phi double [ 0.0, %start ], [ %found.next, %down ]
  %total = phi double [ 0.0, %start ], [ %total.next, %down ]
  %m.float = sitofp i32 %m to double
  %m.factor = fmul double %m.float, %step
  %m.product = fmul double %m.factor, %here
  %below = fsub double %m.product, %above
  %m.next = sub i32 %m, 1
  %is.order = icmp eq i32 %m, %n
  %found.here = select i1 %is.order, double %here, double %found
  %odd = and i32 %m, 1
  %is.odd = icmp eq i32 %odd, 1
  %added = fadd double %total, %below
  %total.here = select i1 %is.odd, double %added, double %total
  %size = call double @llvm.fabs.f64(double %below)
  %too.large = fcmp ogt double %size, 1.0e100
  %scale = select i1 %too.large, double 1.0e-100, double 1.0
  %above.next = fmul double %here, %scale
  %here.next = fmul double %below, %scale
  %found.next = fmul double %found.here, %scale
  %total.next = fmul double %total.here, %scale
  %at.end = icmp eq i32 %m.next, 0
  br i1 %at.end, label %scaled, label %down
scaled:
  %twice = fmul double %total.next, 2.0
  ; The sum has the order 0 too, which counts once.
  %whole = fsub double %twice, %here.next
  %quotient = fdiv double %found.next, %whole
  br label %end
end:
  %result = phi double [ %now, %up ], [ 0.0, %small ], [ %quotient, %scaled ]
  %n.odd = and i32 %n, 1
  %is.n.odd = icmp eq i32 %n.odd, 1
  %negative = fcmp olt double %given, 0.0
  %turned = and i1 %is.n.odd, %negative
  %opposite = fneg double %result
  %signed = select i1 %turned, double %opposite, double %result
  ret double %signed
}}
declare double @__ocml_j0_f64(double)
declare double @__ocml_j1_f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.sqrt.f64(double)
""",
}

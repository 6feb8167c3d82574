// The reduction by shuffles of haulage.cli.bench.kernels; sub-groups are not made of 32 everywhere.
#ifdef cl_intel_subgroups
#define DOWN(value, step) intel_sub_group_shuffle_down(value, 0.0f, step)
#else
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle_relative : enable
#define DOWN(value, step) sub_group_shuffle_down(value, step)
#endif

kernel void reduce_warp(global const float *x, global float *sums, int n) {
  local float room[256];
  int i = get_global_id(0), t = get_local_id(0);
  int size = get_sub_group_size(), count = get_num_sub_groups();
  float value = i < n ? x[i] : 0.0f;
  for (int step = size / 2; step > 0; step /= 2)
    value += DOWN(value, step);
  if (get_sub_group_local_id() == 0)
    room[get_sub_group_id()] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t == 0) {
    for (int k = 1; k < count; k++)
      value += room[k];
    sums[get_group_id(0)] = value;
  }
}

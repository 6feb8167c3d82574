// The kernels of haulage.cli.bench.kernels, word for word as OpenCL C says it.

kernel void saxpy(float a, global const float *x, global const float *y, global float *out, int n) {
  int i = get_global_id(0);
  if (i < n)
    out[i] = a * x[i] + y[i];
}

kernel void stencil(global const float *u, global float *out, int height, int width) {
  int x = get_global_id(0), y = get_global_id(1);
  if (0 < y && y < height - 1 && 0 < x && x < width - 1) {
    int at = y * width + x;
    float around = u[at - width] + u[at + width] + u[at - 1] + u[at + 1];
    out[at] = u[at] + 0.1f * (around - 4.0f * u[at]);
  }
}

kernel void matmul(global const float *a, global const float *b, global float *c, int n) {
  local float a_tile[16][16], b_tile[16][16];
  int column = get_global_id(0), row = get_global_id(1);
  int tx = get_local_id(0), ty = get_local_id(1);
  float total = 0;
  for (int start = 0; start < n; start += 16) {
    a_tile[ty][tx] = a[row * n + start + tx];
    b_tile[ty][tx] = b[(start + ty) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 16; k++)
      total += a_tile[ty][k] * b_tile[k][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = total;
}

kernel void matmul_naive(global const float *a, global const float *b, global float *c, int n) {
  int column = get_global_id(0), row = get_global_id(1);
  if (row < n && column < n) {
    float total = 0;
    for (int k = 0; k < n; k++)
      total += a[row * n + k] * b[k * n + column];
    c[row * n + column] = total;
  }
}

kernel void reduce_tree(global const float *x, global float *sums, int n) {
  local float room[256];
  int i = get_global_id(0), t = get_local_id(0);
  room[t] = i < n ? x[i] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 128; step > 0; step /= 2) {
    if (t < step)
      room[t] += room[t + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0)
    sums[get_group_id(0)] = room[0];
}

kernel void scan(global const float *x, global float *out) {
  local float room[512];
  int t = get_local_id(0), start = get_group_id(0) * 512;
  room[2 * t] = x[start + 2 * t];
  room[2 * t + 1] = x[start + 2 * t + 1];
  int offset = 1;
  for (int pairs = 256; pairs > 0; pairs /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < pairs)
      room[offset * (2 * t + 2) - 1] += room[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0)
    room[511] = 0;
  for (int pairs = 1; pairs < 512; pairs *= 2) {
    offset /= 2;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < pairs) {
      int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
      float value = room[left];
      room[left] = room[right];
      room[right] += value;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  out[start + 2 * t] = room[2 * t];
  out[start + 2 * t + 1] = room[2 * t + 1];
}

kernel void histogram_shared(global const uchar *data, global int *counts, int n) {
  local int mine[256];
  int t = get_local_id(0);
  mine[t] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0))
    atomic_inc(&mine[data[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&counts[t], mine[t]);
}

kernel void histogram_global(global const uchar *data, global int *counts, int n) {
  int i = get_global_id(0);
  if (i < n)
    atomic_inc(&counts[data[i]]);
}

float normal(float d) { return 0.5f * (1.0f + erf(d * 0.70710678f)); }

kernel void black_scholes(global const float *price, global const float *strike,
                          global const float *years, global float *call, global float *put, int n) {
  int i = get_global_id(0);
  if (i < n) {
    float s = price[i], k = strike[i], t = years[i], root = sqrt(t);
    float d1 = (log(s / k) + (0.02f + 0.5f * 0.3f * 0.3f) * t) / (0.3f * root);
    float d2 = d1 - 0.3f * root, now = k * exp(-0.02f * t);
    float c = s * normal(d1) - now * normal(d2);
    call[i] = c;
    put[i] = c - s + now;
  }
}

kernel void mandelbrot(global const float *real, global const float *imaginary, global int *out,
                       int height, int width) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x < width && y < height) {
    float cr = real[x], ci = imaginary[y], zr = cr, zi = ci;
    int n = 0;
    while (n < 200 && zr * zr + zi * zi <= 4.0f) {
      float next = zr * zr - zi * zi + cr;
      zi = 2.0f * zr * zi + ci;
      zr = next;
      n++;
    }
    out[y * width + x] = n;
  }
}

kernel void nbody(global const float *bodies, global float *out, int n) {
  local float tile[256][4];
  int i = get_global_id(0), t = get_local_id(0);
  float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2];
  float ax = 0, ay = 0, az = 0;
  for (int start = 0; start < n; start += 256) {
    for (int k = 0; k < 4; k++)
      tile[t][k] = bodies[4 * (start + t) + k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < 256; j++) {
      float dx = tile[j][0] - x, dy = tile[j][1] - y, dz = tile[j][2] - z;
      float square = dx * dx + dy * dy + dz * dz + 1e-3f;
      float weight = tile[j][3] / (square * sqrt(square));
      ax += weight * dx;
      ay += weight * dy;
      az += weight * dz;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[3 * i] = ax;
  out[3 * i + 1] = ay;
  out[3 * i + 2] = az;
}

kernel void transpose(global const float *a, global float *out, int height, int width) {
  local float tile[32][33];
  int tx = get_local_id(0), ty = get_local_id(1);
  int x = get_group_id(0) * 32 + tx, y = get_group_id(1) * 32 + ty;
  for (int k = 0; k < 32; k += 8)
    tile[ty + k][tx] = a[(y + k) * width + x];
  barrier(CLK_LOCAL_MEM_FENCE);
  x = get_group_id(1) * 32 + tx;
  y = get_group_id(0) * 32 + ty;
  for (int k = 0; k < 32; k += 8)
    out[(y + k) * height + x] = tile[tx][ty + k];
}

kernel void nothing_0(void) {}
kernel void nothing_1(global float *a) {}
kernel void nothing_3(global float *a, global float *b, global float *c) {}
kernel void nothing_8(global float *a, global float *b, global float *c, global float *d,
                      global float *e, global float *f, global float *g, global float *h) {}

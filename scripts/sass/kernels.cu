// The same kernels as a C++ programmer writes them: for compare_sass.py.
#define F __restrict__
extern "C" __global__ void saxpy(float a, const float* F x, const float* F y, float* F out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
extern "C" __global__ void stencil(const float* F u, float* F out, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (0 < y && y < h - 1 && 0 < x && x < w - 1) {
        float around = u[(y - 1) * w + x] + u[(y + 1) * w + x] + u[y * w + x - 1] + u[y * w + x + 1];
        out[y * w + x] = u[y * w + x] + 0.1f * (around - 4.0f * u[y * w + x]);
    }
}
__device__ float normal(float d) { return 0.5f * (1.0f + erff(d * 0.70710678f)); }
extern "C" __global__ void black_scholes(const float* F price, const float* F strike,
                                         const float* F years, float* F call, float* F put, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = price[i], k = strike[i], t = years[i];
        float root = sqrtf(t), drift = 0.02f + 0.5f * 0.3f * 0.3f;
        float d1 = (logf(s / k) + drift * t) / (0.3f * root), d2 = d1 - 0.3f * root;
        float now = k * expf(-0.02f * t), c = s * normal(d1) - now * normal(d2);
        call[i] = c;
        put[i] = c - s + now;
    }
}
extern "C" __global__ void mandelbrot(const float* F real, const float* F imaginary, int* F out,
                                      int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        float cr = real[x], ci = imaginary[y], zr = cr, zi = ci;
        int n = 0;
        while (n < 200 && zr * zr + zi * zi <= 4.0f) {
            float next = zr * zr - zi * zi + cr;
            zi = 2.0f * zr * zi + ci;
            zr = next;
            n++;
        }
        out[y * w + x] = n;
    }
}
extern "C" __global__ void matmul(const float* F a, const float* F b, float* F c, int n, int m) {
    __shared__ float at[16][16], bt[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * blockDim.x + tx, row = blockIdx.y * blockDim.y + ty;
    float total = 0;
    for (int start = 0; start < n; start += 16) {
        at[ty][tx] = a[row * n + start + tx];
        bt[ty][tx] = b[(start + ty) * m + column];
        __syncthreads();
        for (int k = 0; k < 16; k++) total += at[ty][k] * bt[k][tx];
        __syncthreads();
    }
    c[row * m + column] = total;
}
extern "C" __global__ void matmul_naive(const float* F a, const float* F b, float* F c, int h,
                                        int n, int m) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && column < m) {
        float total = 0;
        for (int k = 0; k < n; k++) total += a[row * n + k] * b[k * m + column];
        c[row * m + column] = total;
    }
}
extern "C" __global__ void transpose(const float* F a, float* F out, int h, int w) {
    __shared__ float tile[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
    for (int k = 0; k < 32; k += 8) tile[ty + k][tx] = a[(y + k) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + tx;
    y = blockIdx.x * 32 + ty;
    for (int k = 0; k < 32; k += 8) out[(y + k) * h + x] = tile[tx][ty + k];
}
extern "C" __global__ void nbody(const float* F bodies, float* F out, int n) {
    __shared__ float tile[256][4];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < n; start += 256) {
        for (int k = 0; k < 4; k++) tile[t][k] = bodies[4 * (start + t) + k];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float dx = tile[j][0] - x, dy = tile[j][1] - y, dz = tile[j][2] - z;
            float square = dx * dx + dy * dy + dz * dz + 0.01f;
            float weight = tile[j][3] / (square * sqrtf(square));
            ax += weight * dx;
            ay += weight * dy;
            az += weight * dz;
        }
        __syncthreads();
    }
    out[3 * i] = ax;
    out[3 * i + 1] = ay;
    out[3 * i + 2] = az;
}
extern "C" __global__ void reduce_tree(const float* F x, float* F sums, int n) {
    __shared__ float room[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    room[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) room[t] += room[t + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = room[0];
}
extern "C" __global__ void histogram_shared(const unsigned char* F data, int* F counts, int n) {
    __shared__ int mine[256];
    int t = threadIdx.x;
    mine[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[data[i]], 1);
    __syncthreads();
    atomicAdd(&counts[t], mine[t]);
}
extern "C" __global__ void histogram_global(const unsigned char* F data, int* F counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[data[i]], 1);
}
extern "C" __global__ void grid_stride(const float* F x, float* F out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float total = 0;
    for (int k = i; k < n; k += gridDim.x * blockDim.x) total += x[k];
    out[i] = total;
}
extern "C" __global__ void dot(const float* F x, const float* F y, float* F out, int n) {
    float total = 0;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        total += x[k] * y[k];
    atomicAdd(out, total);
}
extern "C" __global__ void spmv(const double* F values, const int* F columns, const int* F starts,
                                const double* F x, double* F y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        double total = 0;
        for (int k = starts[row]; k < starts[row + 1]; k++) total += values[k] * x[columns[k]];
        y[row] = total;
    }
}
extern "C" __global__ void jacobi(const double* F u, const double* F f, double* F out, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= 1 && i < n - 1 && j >= 1 && j < m - 1)
        out[i * m + j] = 0.25 * (u[(i - 1) * m + j] + u[(i + 1) * m + j] + u[i * m + j - 1] +
                                 u[i * m + j + 1] - f[i * m + j]);
}
extern "C" __global__ void monte_carlo(const unsigned* F seeds, float* F out, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned state = seeds[i];
        int inside = 0;
        for (int s = 0; s < steps; s++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            float x = (state & 0xFFFF) / 65536.0f, y = (state >> 16) / 65536.0f;
            if (x * x + y * y < 1.0f) inside++;
        }
        out[i] = 4.0f * inside / steps;
    }
}
extern "C" __global__ void convolve(const float* F x, const float* F weights, float* F out, int n,
                                    int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float total = 0;
        for (int k = 0; k < m; k++) {
            int at = i + k - m / 2;
            if (at >= 0 && at < n) total += x[at] * weights[k];
        }
        out[i] = total;
    }
}
extern "C" __global__ void polynomial(const double* F coefficients, const double* F x,
                                      double* F out, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double total = 0;
        for (int k = 0; k < m; k++) total = total * x[i] + coefficients[k];
        out[i] = total;
    }
}
extern "C" __global__ void trigonometry(const float* F x, float* F out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sinf(x[i]) * expf(-x[i]) + sqrtf(fabsf(x[i]));
}
extern "C" __global__ void nearest(const float* F points, const float* F centres, int* F which,
                                   int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float best = 1e30f;
        int found = 0;
        for (int c = 0; c < m; c++) {
            float total = 0;
            for (int d = 0; d < 3; d++) {
                float off = points[3 * i + d] - centres[3 * c + d];
                total += off * off;
            }
            if (total < best) {
                best = total;
                found = c;
            }
        }
        which[i] = found;
    }
}
extern "C" __global__ void heat3d(const double* F u, double* F out, double factor, int n0, int n1,
                                  int n2) {
    int k = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.z * blockDim.z + threadIdx.z;
#define U(i, j, k) u[((i) * n1 + (j)) * n2 + (k)]
    if (0 < i && i < n0 - 1 && 0 < j && j < n1 - 1 && 0 < k && k < n2 - 1)
        out[(i * n1 + j) * n2 + k] =
            U(i, j, k) + factor * (U(i - 1, j, k) + U(i + 1, j, k) + U(i, j - 1, k) +
                                   U(i, j + 1, k) + U(i, j, k - 1) + U(i, j, k + 1) -
                                   6 * U(i, j, k));
}

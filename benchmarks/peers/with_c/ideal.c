// What the kernels could come to: the same algorithms, block by block, as loops over the threads.

void reduce_tree(const float *x, float *sums, long blocks) {
#pragma omp parallel for schedule(static)
    for (long block = 0; block < blocks; block++) {
        float room[256] __attribute__((aligned(64)));
        for (int t = 0; t < 256; t++) room[t] = x[block * 256 + t];
        for (int step = 128; step > 0; step /= 2) {
#pragma GCC ivdep
            for (int t = 0; t < step; t++) room[t] += room[t + step];
        }
        sums[block] = room[0];
    }
}

void scan(const float *x, float *out, long blocks) {
#pragma omp parallel for schedule(static)
    for (long block = 0; block < blocks; block++) {
        float room[512] __attribute__((aligned(64)));
        for (int t = 0; t < 512; t++) room[t] = x[block * 512 + t];
        int offset = 1;
        for (int pairs = 256; pairs > 0; pairs /= 2) {
            for (int t = 0; t < pairs; t++)
                room[offset * (2 * t + 2) - 1] += room[offset * (2 * t + 1) - 1];
            offset *= 2;
        }
        room[511] = 0;
        for (int pairs = 1; pairs < 512; pairs *= 2) {
            offset /= 2;
            for (int t = 0; t < pairs; t++) {
                int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
                float value = room[left];
                room[left] = room[right];
                room[right] += value;
            }
        }
        for (int t = 0; t < 512; t++) out[block * 512 + t] = room[t];
    }
}

// The maths library with its slow paths, in single and double precision.
extern "C" __global__ void singles(const float* a, float* out) {
  const float x = a[threadIdx.x];
  float* o = out + 8 * threadIdx.x;
  o[0] = sinf(x);
  o[1] = cosf(x * 1e6f);
  o[2] = erff(x);
  o[3] = lgammaf(fabsf(x) + 0.5f);
  o[4] = powf(fabsf(x), 1.7f);
  o[5] = cbrtf(x);
  o[6] = fmodf(x, 0.7f);
  o[7] = hypotf(x, 3);
}
extern "C" __global__ void doubles(const double* a, double* out) {
  const double x = a[threadIdx.x];
  double* o = out + 4 * threadIdx.x;
  o[0] = sin(x * 1e10);
  o[1] = exp(x) * log(fabs(x) + 1);
  o[2] = tgamma(fabs(x) / 10 + 0.5);
  o[3] = atan2(x, 2.0);
}

// Products, convolutions, sorting and top-k of XLA's CPU runtime, from the headers and sources that
// TensorFlow's package has, compiled for one thread. What needs libraries is left out.
#include <algorithm>
#include <cstdlib>

#define ABSL_LOG_CHECK_H_
#define ABSL_LOG_LOG_H_
#define XLA_BACKENDS_CPU_RUNTIME_WORK_QUEUE_H_
#define XLA_TSL_CONCURRENCY_ASYNC_VALUE_REF_H_
#define XLA_TSL_CONCURRENCY_CHAIN_H_

namespace {
struct Failure {
  [[noreturn]] Failure() { std::abort(); }
  template <typename Value>
  Failure& operator<<(const Value&) {
    return *this;
  }
};
}  // namespace
#define CHECK(condition) while (!(condition)) Failure()
#define DCHECK_EQ(a, b) while (false && (a) == (b)) Failure()
#define DCHECK_LT(a, b) while (false && (a) < (b)) Failure()
#define DCHECK_GE(a, b) while (false && (a) >= (b)) Failure()
#define DCHECK(condition) while (false && (condition)) Failure()
#define LOG(level) Failure()

#define EIGEN_CXX11_TENSOR_TENSOR_DEVICE_THREAD_POOL_H
#include "unsupported/Eigen/CXX11/Tensor"

// In the place of threads, for which the functions below ask, and which nothing here gives them:
// Eigen's own are three quarters of the object file, and more than half of the time to compile it.
namespace Eigen {
struct ThreadPoolDevice {
  int numThreads() const { std::abort(); }
  void* getPool() const { std::abort(); }
};
template <typename Expression, typename Done>
struct TensorAsyncDevice<Expression, ThreadPoolDevice, Done> {
  TensorAsyncDevice(const ThreadPoolDevice&, Expression&, Done) {}
  template <typename Value>
  void operator=(const Value&) {
    std::abort();
  }
};
}  // namespace Eigen
namespace tsl {
struct Chain {};
template <typename Value>
struct CountDownAsyncValueRef {
  explicit CountDownAsyncValueRef(int64_t) {}
  CountDownAsyncValueRef& AsPtr() { return *this; }
  template <typename Call>
  void AndThen(Call&&) {}
  void CountDown() {}
};
}  // namespace tsl
namespace xla::cpu {
struct Worker {
  template <typename... Values>
  static void Parallelize(Values&&...) {
    std::abort();
  }
};
}  // namespace xla::cpu

#include "xla/backends/cpu/runtime/convolution_lib.h"
#include "xla/backends/cpu/runtime/dot_lib.h"
#include "xla/backends/cpu/runtime/topk_lib.h"
#include "xla/backends/cpu/runtime/sort_lib.cc"

// The sizes are in the order of EigenConv2D: those of input, kernel and output, strides, padding
// before and after, dilations of input and kernel, groups.
#ifdef __x86_64__
XLA_CPU_DEFINE_CONV2D(float);

static void convolve(float* out, const float* input, const float* kernel, const int64_t* s) {
  xla::cpu::internal::EigenConv2D<float>(
      nullptr, out, input, kernel, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9],
      s[10], s[11], s[12], s[13], s[14], s[15], s[16], s[17], s[18], s[19], s[20], [] {});
}
#else  // Eigen's convolutions in these headers do not compile for other machines: plain loops
static void convolve(float* out, const float* input, const float* kernel, const int64_t* s) {
  const int64_t rows = s[1], columns = s[2], channels = s[3], depth = s[6], filters = s[7];
  const int64_t width = filters / s[20];  // results of a group
  for (int64_t pixel = 0; pixel < s[0] * s[8] * s[9]; ++pixel) {
    const int64_t image = pixel / (s[8] * s[9]), at = pixel / s[9] % s[8], across = pixel % s[9];
    float* result = out + pixel * filters;
    std::fill(result, result + filters, 0.0f);
    for (int64_t tap = 0; tap < s[4] * s[5]; ++tap) {
      const int64_t y = at * s[10] + tap / s[5] * s[18] - s[12];
      const int64_t x = across * s[11] + tap % s[5] * s[19] - s[14];
      if (y < 0 || x < 0 || y % s[16] || x % s[17]) continue;  // padding, or between dilated rows
      if (y / s[16] >= rows || x / s[17] >= columns) continue;
      const float* values = input + ((image * rows + y / s[16]) * columns + x / s[17]) * channels;
      for (int64_t channel = 0; channel < channels; ++channel) {
        const int64_t first = channel / depth * width;  // of the channel's group
        const float* weights = kernel + (tap * depth + channel % depth) * filters + first;
        for (int64_t i = 0; i < width; ++i) result[first + i] += values[channel] * weights[i];
      }
    }
  }
}
#endif

using namespace xla::cpu::internal;

extern "C" {
void fathom_product(float* out, float* left, float* right, int64_t m, int64_t n, int64_t k,
                    bool transpose_left, bool transpose_right) {
  MatMul<float, float, float, Eigen::Unaligned>(nullptr, out, left, right, m, n, k,
                                                transpose_left, transpose_right, [] {});
}

void fathom_convolution(float* out, const float* input, const float* kernel, const int64_t* s) {
  convolve(out, input, kernel, s);
}

void fathom_sort(const int64_t* sizes, std::byte** values, const size_t* bytes, size_t count,
                 bool stable, bool (*less)(void*, const void**), void* context) {
  LessThan call = [=](const void** pair) { return less(context, pair); };
  SortInplace({sizes[0], sizes[1], sizes[2]}, absl::Span<std::byte* const>(values, count),
              absl::Span<const size_t>(bytes, count), stable, &call);
}

void fathom_largest(int64_t batch, int64_t size, int64_t k, const float* values, float* out,
                    int32_t* indices) {
  TopK<float>(batch, size, k, values, out, indices);
}
}

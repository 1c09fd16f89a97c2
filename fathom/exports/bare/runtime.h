// What step.h, which TensorFlow's ahead-of-time compiler wrote, needs, for one thread and no library.
#ifndef FATHOM_RUNTIME_H
#define FATHOM_RUNTIME_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#define ABSL_PREDICT_FALSE(condition) (condition)
#define ABSL_ANNOTATE_MEMORY_IS_INITIALIZED(address, size)

extern "C" {
// The interface of XLA's kernels.
struct XLA_CPU_NumWorkGroups {
  uint64_t x, y, z;
};
struct XLA_CPU_WorkGroupId {
  uint64_t x, y, z;
};
struct XLA_CPU_KernelArg {
  void* data;
  size_t size;
};
struct XLA_CPU_KernelCallFrame {
  const XLA_CPU_NumWorkGroups* groups;
  const XLA_CPU_WorkGroupId* group;
  size_t count;
  const XLA_CPU_KernelArg* arguments;
};
struct XLA_CPU_KernelError;

// In runtime.o: XLA's own sources, compiled with Eigen.
void fathom_product(float* out, float* left, float* right, int64_t m, int64_t n, int64_t k,
                    bool transpose_left, bool transpose_right);
void fathom_convolution(float* out, const float* input, const float* kernel, const int64_t* sizes);
void fathom_sort(const int64_t* sizes, std::byte** values, const size_t* bytes, size_t count,
                 bool stable, bool (*less)(void*, const void**), void* context);
void fathom_largest(int64_t batch, int64_t size, int64_t k, const float* values, float* out,
                    int32_t* indices);
}

namespace absl {
// One thread: what was begun is done.
struct BlockingCounter {
  explicit BlockingCounter(int) {}
  void DecrementCount() {}
  void Wait() {}
};
struct Notification {
  void Notify() {}
  void WaitForNotification() {}
};
template <typename Call>
using AnyInvocable = std::function<Call>;
template <typename Key, typename Value>
using flat_hash_map = std::unordered_map<Key, Value>;
}  // namespace absl

namespace Eigen {
struct ThreadPoolDevice;
}

namespace xla {
struct ProgramShapeProto;
struct ExecutableRunOptions {
  const Eigen::ThreadPoolDevice* intra_op_thread_pool() const { return nullptr; }
};

namespace cpu {
struct RngState {  // not used: Fathom's random numbers are computed from a seed
  void GetAndUpdateState(uint64_t*) { std::abort(); }
};

struct EncodedBufferAllocationInfo {
  uint64_t kind_and_size;
  uint32_t argument, result;
};
struct BufferAllocationInfo {
  explicit BufferAllocationInfo(EncodedBufferAllocationInfo encoded)
      : bytes(encoded.kind_and_size >> 2), constant((encoded.kind_and_size & 3) == 0) {}
  uint64_t size() const { return bytes; }
  uint64_t bytes;
  bool constant;
};

namespace internal {
template <typename Left, typename Right, typename Out, typename Done>
void TypedMatMul(const Eigen::ThreadPoolDevice*, Out* out, Left* left, Right* right, int64_t m,
                 int64_t n, int64_t k, bool transpose_left, bool transpose_right, Done) {
  fathom_product(out, left, right, m, n, k, transpose_left, transpose_right);
}

template <typename Value, typename... Sizes>
void EigenConv2D(const Eigen::ThreadPoolDevice*, Value* out, const Value* input,
                 const Value* kernel, Sizes... sizes) {
  auto number = [](auto value) -> int64_t {  // the last one is the function to call when done
    if constexpr (std::is_integral_v<decltype(value)>) return value;
    return 0;
  };
  const int64_t numbers[] = {number(sizes)...};
  static_assert(sizeof...(Sizes) == 22);
  fathom_convolution(out, input, kernel, numbers);
}

struct SortDims {
  int64_t outer, sorted, inner;
};
using Less = absl::AnyInvocable<bool(const void**)>;
inline void SortInplace(const SortDims& sizes, std::vector<std::byte*>& values,
                        const std::vector<size_t>& bytes, bool stable, Less* less) {
  auto call = [](void* less, const void** pair) { return (*static_cast<Less*>(less))(pair); };
  fathom_sort(&sizes.outer, values.data(), bytes.data(), values.size(), stable, call, less);
}

inline void TopK(int64_t batch, int64_t size, int64_t k, const float* values, float* out,
                 int32_t* indices) {
  fathom_largest(batch, size, k, values, out, indices);
}
}  // namespace internal
}  // namespace cpu
}  // namespace xla

namespace tensorflow {
using int32 = int32_t;

// The base of the class in step.h: a table of buffers, and the function that runs the step on it.
class XlaCompiledCpuFunction {
 public:
  enum class AllocMode { ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS };
  struct ShapeInfo {
    const int32_t* dimensions;
    int32_t count;
  };
  using Generators = std::vector<std::unique_ptr<xla::cpu::RngState>>;
  using Run_ = std::function<bool(void**, xla::ExecutableRunOptions*, Generators&)>;
  struct StaticData {
    Run_ run;
    std::vector<std::pair<uint64_t, char*>> constants;
    const xla::cpu::BufferAllocationInfo* buffers;
    int32_t buffer_count;
    const int32_t *results, *arguments;
  };

  XlaCompiledCpuFunction(const StaticData& data, AllocMode) : data_(data) {
    auto constant = data.constants.begin();
    for (int32_t i = 0; i < data.buffer_count; ++i) {
      const auto& buffer = data.buffers[i];
      if (buffer.constant && constant != data.constants.end()) {
        table_.push_back((constant++)->second);
        continue;
      }
      const size_t whole = (buffer.size() + 63) / 64 * 64 + 64;
      table_.push_back(std::aligned_alloc(64, whole));
      if (table_.back() == nullptr) std::abort();
      std::memset(table_.back(), 0, whole);
    }
  }
  virtual ~XlaCompiledCpuFunction() = default;
  bool Run() { return data_.run(table_.data(), &options_, generators_); }
  void* arg_data(size_t i) const { return table_[data_.arguments[i]]; }
  void set_arg_data(size_t i, const void* data) {
    table_[data_.arguments[i]] = const_cast<void*>(data);
  }
  void* result_data(size_t i) const { return table_[data_.results[i]]; }
  size_t result_size(size_t i) const { return data_.buffers[data_.results[i]].size(); }

 protected:
  virtual bool is_thunk_mode() const = 0;
  static void set_static_data_thunk_run_impl(StaticData* data, Run_ run) { data->run = run; }
  static void set_static_data_embedded_constant_buffers(
      StaticData* data, std::vector<std::pair<uint64_t, char*>> constants) {
    data->constants = constants;
  }
  static void set_static_data_buffer_infos(StaticData* data,
                                           const xla::cpu::BufferAllocationInfo* buffers) {
    data->buffers = buffers;
  }
  static void set_static_data_num_buffers(StaticData* data, size_t count) {
    data->buffer_count = count;
  }
  static void set_static_data_result_index_table(StaticData* data, const int32_t* results) {
    data->results = results;
  }
  static void set_static_data_arg_index_table(StaticData* data, const int32_t* arguments) {
    data->arguments = arguments;
  }
#define FATHOM_UNUSED(name) \
  template <typename Value> \
  static void set_static_data_##name(StaticData*, const Value&) {}
  FATHOM_UNUSED(function_library_symbol_map)
  FATHOM_UNUSED(num_results)
  FATHOM_UNUSED(num_args)
  FATHOM_UNUSED(num_variables)
  FATHOM_UNUSED(temp_allocation_index)
  FATHOM_UNUSED(arg_shape_infos)
  FATHOM_UNUSED(result_shape_infos)
  FATHOM_UNUSED(arg_names)
  FATHOM_UNUSED(variable_names)
  FATHOM_UNUSED(result_names)
  FATHOM_UNUSED(program_shape)
  FATHOM_UNUSED(rng_state_deltas)
  FATHOM_UNUSED(compilation_result_proto)
#undef FATHOM_UNUSED

 private:
  const StaticData& data_;
  std::vector<void*> table_;
  xla::ExecutableRunOptions options_;
  Generators generators_;
};
}  // namespace tensorflow

#endif

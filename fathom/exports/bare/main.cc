// Runs the step, and checks what it computes against expected/.
#include <cmath>
#include <cstdio>

#include "tensors.h"
#include "roi.h"
#include "runtime.h"
#include "step.h"

namespace {
[[noreturn]] void fail(const char* what, const char* name) {
  std::fprintf(stderr, "%s %s\n", what, name);
  std::exit(2);
}

// Reads `size` bytes of a NumPy file's array, which has `count` of such parts, into memory.
void read_array(const char* name, void* into, size_t size, size_t part, size_t count) {
  std::FILE* file = std::fopen(name, "rb");
  if (file == nullptr) fail("cannot open", name);
  unsigned char head[10];
  if (std::fread(head, 1, 10, file) != 10 || head[0] != 0x93 || head[6] != 1)
    fail("not a NumPy file of version 1:", name);
  const long begin = 10 + head[8] + 256L * head[9];
  std::fseek(file, 0, SEEK_END);
  if (static_cast<size_t>(std::ftell(file) - begin) != size * count) fail("wrong size:", name);
  std::fseek(file, begin + static_cast<long>(size * part), SEEK_SET);
  if (size != 0 && std::fread(into, 1, size, file) != size) fail("cannot read", name);
  std::fclose(file);
}

// Returns the norm of the difference over the norm of what is expected; NaN is a difference.
double error_of(const Result& result, const void* found, const void* expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < result.count; ++i) {
    double a, b;
    if (result.kind == 'f') {
      a = static_cast<const float*>(found)[i], b = static_cast<const float*>(expected)[i];
    } else {
      a = static_cast<const int32_t*>(found)[i], b = static_cast<const int32_t*>(expected)[i];
    }
    difference += (a - b) * (a - b), norm += b * b;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Prints a result of a step; returns whether it is as expected, or was not recorded.
bool check(const Result& result, const void* found, long step) {
  const long part = step_changes_state ? step : 0;
  const double first = result.kind == 'f' ? *static_cast<const float*>(found)
                                          : *static_cast<const int32_t*>(found);
  std::printf("step %ld: %s%s %.6g", step + 1, result.name, result.count > 1 ? "[0]" : "", first);
  if (part >= recorded_steps) {
    std::printf(", not checked: %ld steps were recorded\n", recorded_steps);
    return true;
  }
  char name[256];
  std::snprintf(name, sizeof name, "expected/%s.npy", result.name);
  std::vector<char> expected(4 * result.count);
  read_array(name, expected.data(), expected.size(), part, recorded_steps);
  const double error = error_of(result, found, expected.data());
  const bool right = error <= 1e-4;
  std::printf(", relative error %.1e%s\n", error, right ? "" : ": WRONG");
  return right;
}
}  // namespace

int main(int count, char** words) {
  long steps = recorded_steps;
  if (count == 3) steps = std::strcmp(words[1], "--steps") == 0 ? std::atol(words[2]) : 0;
  if ((count != 1 && count != 3) || steps < 1) fail("usage:", "[--steps N], N of at least 1");
  Step step;
  for (size_t i = 0; i < Step::kNumArgs; ++i)
    read_array(arguments[i], step.arg_data(i), Step::ArgSize(i), 0, 1);
  bool right = true;
  for (long i = 0; i < steps; ++i) {
    ROI_STEP_BEGIN(i);
    const bool ran = step.Run();
    ROI_STEP_END(i);
    ROI_REPORT(i);
    if (!ran) fail("the step failed:", words[0]);
    for (size_t j = 0; j < sizeof results / sizeof *results; ++j) {
      if (step.result_size(j) != 4 * results[j].count) fail("wrong size:", results[j].name);
      right = check(results[j], step.result_data(j), i) && right;
    }
  }
  return right ? 0 : 1;
}

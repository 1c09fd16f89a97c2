/* Marks where each step begins and ends, or each passage through a layer. Off by default:
   ROI=GEM5 sh build.sh turns one kind on, with LAYER=3 or LAYER=all for layers of layers.txt. */
#ifndef FATHOM_ROI_H
#define FATHOM_ROI_H

enum { all }; /* every layer; the first is 1 */
static const long layer_count = sizeof layers / sizeof *layers;

#if defined(ROI_GEM5) && defined(__x86_64__) /* m5_work_begin, m5_work_end */
#define FATHOM_M5(number, item) \
  __asm__ volatile(".byte 0x0f, 0x04; .word " #number : : "D"(item), "S"(0L) : "rax", "memory")
#elif defined(ROI_GEM5) && defined(__aarch64__)
#define FATHOM_M5(number, item)                                                        \
  do {                                                                                 \
    register long x0 __asm__("x0") = (item), x1 __asm__("x1") = 0;                     \
    __asm__ volatile(".inst 0xff000110 | (" #number " << 16)" : "+r"(x0) : "r"(x1) : "memory"); \
  } while (0)
#elif defined(ROI_GEM5) && defined(__riscv)
#define FATHOM_M5(number, item)                                                        \
  do {                                                                                 \
    register long a0 __asm__("a0") = (item), a1 __asm__("a1") = 0;                     \
    __asm__ volatile(".word 0x7b | (" #number " << 25)" : "+r"(a0) : "r"(a1) : "memory"); \
  } while (0)
#endif

#ifdef FATHOM_M5
#define ROI_BEGIN(number) FATHOM_M5(0x5a, (long)(number))
#define ROI_END(number) FATHOM_M5(0x5b, (long)(number))
#elif defined(ROI_SNIPER) && defined(__x86_64__) /* SimRoiStart, SimRoiEnd */
#define FATHOM_SNIPER(command) \
  __asm__ volatile("xchg %%bx, %%bx" : : "a"((long)command), "b"(0L), "c"(0L) : "memory")
#define ROI_BEGIN(number) FATHOM_SNIPER(1)
#define ROI_END(number) FATHOM_SNIPER(2)
#elif defined(ROI_VALGRIND) /* valgrind --tool=callgrind --collect-atstart=no */
#include <valgrind/callgrind.h>
/* Set for who reads a trace of addresses: the place tells the layer, 0 being a step. */
volatile char fathom_roi_begin[layer_count + 1], fathom_roi_end[layer_count + 1];
#ifdef ROI_LAYER
#define FATHOM_PLACE(number) (number)
#else
#define FATHOM_PLACE(number) 0
#endif
#define ROI_BEGIN(number)                         \
  do {                                            \
    fathom_roi_begin[FATHOM_PLACE(number)] = 1;   \
    CALLGRIND_TOGGLE_COLLECT;                     \
  } while (0)
#define ROI_END(number)                           \
  do {                                            \
    CALLGRIND_TOGGLE_COLLECT;                     \
    fathom_roi_end[FATHOM_PLACE(number)] = 1;     \
  } while (0)
#elif defined(ROI_PERF) /* perf stat -D -1 --control fd:9,8 ./program 9<>FIFO 8<>FIFO2 */
#include <unistd.h>
/* perf answers "ack" on 8 when it has begun or ended: until then it would count what is not marked. */
static inline void fathom_perf(const char* command, size_t length) {
  char answer[8];
  (void)!write(9, command, length);
  (void)!read(8, answer, sizeof answer);
}
#define ROI_BEGIN(number) fathom_perf("enable\n", 7)
#define ROI_END(number) fathom_perf("disable\n", 8)
#elif defined(ROI_TIME) /* prints the seconds of each step, or of each layer in it */
#include <chrono>
static std::chrono::steady_clock::time_point fathom_begin;
static double fathom_seconds[layer_count + 1];
#ifdef ROI_LAYER
#define FATHOM_PLACE(number) (number)
#define ROI_REPORT(step)                                                      \
  for (long i = 1; i <= layer_count; fathom_seconds[i++] = 0)                 \
    if (fathom_seconds[i] > 0) std::printf("%s: %.9f s\n", layers[i - 1], fathom_seconds[i])
#else
#define FATHOM_PLACE(number) 0
#define ROI_REPORT(step)                                             \
  std::printf("step %ld: %.9f s\n", (step) + 1, fathom_seconds[0]); \
  fathom_seconds[0] = 0
#endif
#define ROI_BEGIN(number) fathom_begin = std::chrono::steady_clock::now()
#define ROI_END(number)                      \
  fathom_seconds[FATHOM_PLACE(number)] +=    \
      std::chrono::duration<double>(std::chrono::steady_clock::now() - fathom_begin).count()
#elif defined(ROI_GEM5) || defined(ROI_SNIPER)
#error "roi.h has no marks of this kind for this machine"
#else
#define ROI_BEGIN(number) (void)(number)
#define ROI_END(number) (void)(number)
#endif
#ifndef ROI_REPORT
#define ROI_REPORT(step)
#endif

#ifdef ROI_LAYER /* ROI_ENTER stands in step.h before each kernel */
static_assert(ROI_LAYER <= layer_count, "layers.txt has fewer layers");
static long fathom_layer = 0;
static inline void fathom_enter(long layer) {
  if (layer == fathom_layer) return;
  if (fathom_layer && (ROI_LAYER == all || ROI_LAYER == fathom_layer)) ROI_END(fathom_layer);
  fathom_layer = layer;
  if (layer && (ROI_LAYER == all || ROI_LAYER == layer)) ROI_BEGIN(layer);
}
#define ROI_ENTER(layer) fathom_enter(layer)
#define ROI_STEP_BEGIN(step) (void)(step)
#define ROI_STEP_END(step) fathom_enter(0)
#else
#define ROI_ENTER(layer)
#define ROI_STEP_BEGIN(step) ROI_BEGIN(step)
#define ROI_STEP_END(step) ROI_END(step)
#endif

#endif

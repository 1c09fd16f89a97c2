/* Marks where each step begins and ends. Off by default: ROI=GEM5 sh build.sh turns one kind on. */
#ifndef FATHOM_ROI_H
#define FATHOM_ROI_H

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
#define ROI_BEGIN(step) FATHOM_M5(0x5a, (long)(step))
#define ROI_END(step) FATHOM_M5(0x5b, (long)(step))
#elif defined(ROI_SNIPER) && defined(__x86_64__) /* SimRoiStart, SimRoiEnd */
#define FATHOM_SNIPER(number) \
  __asm__ volatile("xchg %%bx, %%bx" : : "a"((long)number), "b"(0L), "c"(0L) : "memory")
#define ROI_BEGIN(step) FATHOM_SNIPER(1)
#define ROI_END(step) FATHOM_SNIPER(2)
#elif defined(ROI_VALGRIND) /* valgrind --tool=callgrind --collect-atstart=no */
#include <valgrind/callgrind.h>
volatile long fathom_roi_begin, fathom_roi_end; /* set for who reads a trace of addresses */
#define ROI_BEGIN(step) \
  do {                  \
    fathom_roi_begin = (step); \
    CALLGRIND_TOGGLE_COLLECT;  \
  } while (0)
#define ROI_END(step) \
  do {                \
    CALLGRIND_TOGGLE_COLLECT; \
    fathom_roi_end = (step);  \
  } while (0)
#elif defined(ROI_PERF) /* perf stat -D -1 --control fd:9 ./program 9>FIFO */
#include <unistd.h>
#define ROI_BEGIN(step) (void)!write(9, "enable\n", 7)
#define ROI_END(step) (void)!write(9, "disable\n", 8)
#elif defined(ROI_TIME) /* prints the seconds of each step */
#include <chrono>
static std::chrono::steady_clock::time_point fathom_begin;
#define ROI_BEGIN(step) fathom_begin = std::chrono::steady_clock::now()
#define ROI_END(step)                                                                  \
  std::printf("step %ld: %.9f s\n", (step) + 1,                                         \
              std::chrono::duration<double>(std::chrono::steady_clock::now() - fathom_begin).count())
#elif defined(ROI_GEM5) || defined(ROI_SNIPER)
#error "roi.h has no marks of this kind for this machine"
#else
#define ROI_BEGIN(step) (void)(step)
#define ROI_END(step) (void)(step)
#endif

#endif

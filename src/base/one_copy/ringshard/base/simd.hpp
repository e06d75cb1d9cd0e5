#pragma once

// In place of include/ringshard/base/simd.hpp where there is one copy of a function: on other
// processors than x86-64, and where threads are watched, since the loader would pick between copies
// before the thread sanitizer is ready for what picks them.
#define RINGSHARD_SIMD

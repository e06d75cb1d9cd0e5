#pragma once

// In place of include/ringshard/base/simd.hpp where threads are watched: the loader picks between
// the copies of a function before the thread sanitizer is ready for what picks them. Here there is
// one.
#define RINGSHARD_SIMD

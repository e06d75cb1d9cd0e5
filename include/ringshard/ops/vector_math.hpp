#pragma once

namespace ringshard::ops {

// ATen takes exp, sqrt and their like from MKL, which looks for the kernel of each when it is first
// called. oneMKL 2024.2 gives a wrong one, of 12 bits, if several threads make that first call at
// once. So a process calls every function here, from one thread, before its first parallel work.
void resolve_vector_math();

}  // namespace ringshard::ops

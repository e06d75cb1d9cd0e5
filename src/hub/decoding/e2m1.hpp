#pragma once

#include <array>

namespace ringshard::hub {

// The numbers of four bits of MXFP4 and NVFP4: a sign, two bits of exponent, one of mantissa.
inline constexpr std::array<float, 16> e2m1_numbers{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                    4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                    -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace ringshard::hub

#include "text_tools.hpp"
namespace ringshard::data {}

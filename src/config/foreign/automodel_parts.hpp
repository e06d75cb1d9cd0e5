#pragma once

#include "foreign_import.hpp"

// The keys of NeMo Automodel that its table does not translate by itself.
namespace ringshard::config {

// Returns the last word of a path of Python: the class or function.
std::string last_word(const std::string& path);

// Reads the datasets, whose builders become row templates.
void read_automodel_data(ForeignImport& import);
// Reads the optimizer and the schedule of the learning rate.
void read_automodel_optimizer(ForeignImport& import);

}  // namespace ringshard::config

#include "ringshard/job/array.hpp"

#include "output_of.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::job {

std::string array_text(const std::vector<int64_t>& ascending) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < ascending.size();) {
        size_t last = i;
        while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
        parts.push_back(last == i ? concat(ascending[i])
                                  : format_text("{}-{}", ascending[i], ascending[last]));
        i = last + 1;
    }
    return join(parts, ",");
}

std::optional<std::set<int64_t>> elements_in_queue(const std::vector<std::string>& job_ids) {
    std::set<int64_t> elements;
    for (const std::string& id : job_ids) {
        // squeue fails for a job that SLURM has forgotten; such a job has no elements in the queue.
        const auto listed =
            output_of({"squeue", "--noheader", "--array", "--jobs", id, "--format", "%K"}, {});
        if (!listed && !output_of({"squeue", "--version"}, {})) return std::nullopt;
        for (const std::string& line : split(listed.value_or(""), '\n'))
            if (const auto element = read_whole_number(trim(line))) elements.insert(*element);
    }
    return elements;
}

}  // namespace ringshard::job

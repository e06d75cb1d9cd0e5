#include <cmath>
#include <map>

#include "ringshard/base/mix.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"
#include "tracker_text.hpp"

namespace ringshard::report {

namespace {

int64_t milliseconds(double time) { return static_cast<int64_t>(time * 1e3); }

// YAML takes JSON's texts, and MLflow's reader is one of YAML.
std::string yaml(const std::vector<std::pair<std::string, std::string>>& fields) {
    std::string text;
    for (const auto& [name, value] : fields) text += format_text("{}: {}\n", name, value);
    return text;
}

// As Python prints it.
std::string python_number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return shortest(value);
}

// The experiment of a project: MLflow's own are numbers of 18 digits.
std::string experiment_id(const std::string& project) {
    constexpr uint64_t smallest = 100000000000000000;
    return std::to_string(smallest + hash_text(project) % (9 * smallest));
}

constexpr size_t longest_parameter = 6000;  // MLflow's limit

class MlflowRun : public Tracker {
public:
    explicit MlflowRun(const TrackedRun& run)
        : run_(run),
          store_(run.output_dir / "mlruns"),
          experiment_(experiment_id(run.project)),
          folder_(store_ / experiment_ / run.id) {}

    std::optional<Failure> begin() {
        std::error_code error;
        std::filesystem::remove_all(folder_, error);
        if (auto failure = write(store_ / experiment_ / "meta.yaml", experiment())) return failure;
        if (auto failure = write(folder_ / "meta.yaml", describe("1", "null"))) return failure;
        for (const auto& [name, text] : run_.settings)
            if (auto failure = write(folder_ / "params" / name, text.substr(0, longest_parameter)))
                return failure;
        const std::vector<std::pair<std::string, std::string>> tags{
            {"mlflow.runName", run_.name},
            {"mlflow.user", run_.user},
            {"mlflow.source.name", "trainer"},
            {"mlflow.source.type", "LOCAL"}};
        for (const auto& [name, text] : tags)
            if (auto failure = write(folder_ / "tags" / name, text)) return failure;
        std::filesystem::create_directories(folder_ / "artifacts", error);
        return std::nullopt;
    }

    std::optional<Failure> restore(const TrackedLine& line) override { return add(line); }

    std::optional<Failure> add(const TrackedLine& line) override {
        for (const auto& [key, value] : line.numbers) {
            auto found = metrics_.find(key);
            if (found == metrics_.end()) {
                auto file = TrackerFile::create(folder_ / "metrics" / key);
                if (!file) return file.failure();
                found = metrics_.emplace(key, std::move(file).value()).first;
            }
            if (auto failure = found->second.append(format_text(
                    "{} {} {}\n", milliseconds(line.time), python_number(value), line.step)))
                return failure;
        }
        return std::nullopt;
    }

    std::optional<Failure> end(double time) override {
        return write(folder_ / "meta.yaml", describe("3", std::to_string(milliseconds(time))));
    }

    std::string command() const override {
        return "mlflow ui --backend-store-uri " + shell_word(store_.string());
    }

private:
    std::string experiment() const {
        const std::string began = std::to_string(milliseconds(run_.began));
        return yaml({{"artifact_location", json_text((store_ / experiment_).string())},
                     {"creation_time", began},
                     {"experiment_id", json_text(experiment_)},
                     {"last_update_time", began},
                     {"lifecycle_stage", "active"},
                     {"name", json_text(run_.project)}});
    }

    // `status`: 1 while it runs, 3 when it is complete.
    std::string describe(const std::string& status, const std::string& end_time) const {
        return yaml({{"artifact_uri", json_text((folder_ / "artifacts").string())},
                     {"end_time", end_time},
                     {"entry_point_name", "''"},
                     {"experiment_id", json_text(experiment_)},
                     {"lifecycle_stage", "active"},
                     {"run_id", json_text(run_.id)},
                     {"run_name", json_text(run_.name)},
                     {"source_name", "''"},
                     {"source_type", "4"},
                     {"source_version", "''"},
                     {"start_time", std::to_string(milliseconds(run_.began))},
                     {"status", status},
                     {"tags", "[]"},
                     {"user_id", json_text(run_.user)}});
    }

    static std::optional<Failure> write(const std::filesystem::path& file,
                                        const std::string& content) {
        auto created = TrackerFile::create(file);
        if (!created) return created.failure();
        return created.value().append(content);
    }

    TrackedRun run_;
    std::filesystem::path store_;
    std::string experiment_;
    std::filesystem::path folder_;
    std::map<std::string, TrackerFile> metrics_{};  // by name
};

}  // namespace

Expected<std::unique_ptr<Tracker>> open_mlflow(const TrackedRun& run) {
    auto made = std::make_unique<MlflowRun>(run);
    if (auto failure = made->begin()) return *failure;
    return std::unique_ptr<Tracker>(std::move(made));
}

}  // namespace ringshard::report

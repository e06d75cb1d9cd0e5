#include <sqlite3.h>

#include <cctype>
#include <cmath>

#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"
#include "tensorboard.hpp"
#include "tracker_text.hpp"

namespace ringshard::report {

namespace {

// Trackio's tables of metrics and configurations, in the second version of its schema; it adds the
// others itself.
constexpr const char* schema = R"sql(
CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
    timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL,
    log_id TEXT, space_id TEXT);
CREATE INDEX idx_metrics_run_step ON metrics(run_id, step);
CREATE INDEX idx_metrics_run_timestamp ON metrics(run_id, timestamp);
CREATE TABLE configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
    run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));
CREATE INDEX idx_configs_run_name ON configs(run_name);
PRAGMA user_version = 2;
)sql";

// The database is made anew by each start, so it does without flushes and a journal on disk.
constexpr const char* settings = "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;";

class Database {
public:
    static Expected<Database> create(const std::filesystem::path& file) {
        std::error_code error;
        std::filesystem::create_directories(file.parent_path(), error);
        std::filesystem::remove(file, error);
        Database made(file);
        sqlite3* opened = nullptr;
        const int result = sqlite3_open_v2(file.c_str(), &opened,
                                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
        made.handle_.reset(opened);
        if (result != SQLITE_OK) return made.failure();
        for (const char* statements : {settings, schema})
            if (auto failure = made.run(statements)) return *failure;
        return made;
    }

    std::optional<Failure> run(const char* statements) {
        if (sqlite3_exec(handle_.get(), statements, nullptr, nullptr, nullptr) == SQLITE_OK)
            return std::nullopt;
        return failure();
    }

    // Runs a statement with texts in place of its question marks.
    std::optional<Failure> run(const char* statement, const std::vector<std::string>& values) {
        sqlite3_stmt* made = nullptr;
        if (sqlite3_prepare_v2(handle_.get(), statement, -1, &made, nullptr) != SQLITE_OK)
            return failure();
        const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owned(made, sqlite3_finalize);
        for (size_t i = 0; i < values.size(); ++i)
            sqlite3_bind_text(made, static_cast<int>(i) + 1, values[i].data(),
                              static_cast<int>(values[i].size()), SQLITE_TRANSIENT);
        if (sqlite3_step(made) != SQLITE_DONE) return failure();
        return std::nullopt;
    }

private:
    explicit Database(std::filesystem::path file) : file_(std::move(file)) {}

    Failure failure() const {
        return {ExitCode::io, format_text("{}: {}", file_.string(), sqlite3_errmsg(handle_.get()))};
    }

    std::filesystem::path file_;
    std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_{nullptr, sqlite3_close};
};

// Trackio's name of a project's files: letters, digits, hyphens and underscores of its name.
std::string file_name(const std::string& project) {
    std::string safe;
    for (const char c : project)
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') safe += c;
    return safe.empty() ? "default" : safe;
}

// Trackio writes NaN and infinity as texts.
std::string trackio_number(double value) {
    const std::string number = json_number(value);
    return std::isfinite(value) ? number : json_text(number);
}

std::string json_object(const std::vector<std::pair<std::string, std::string>>& fields) {
    std::vector<std::string> texts;
    for (const auto& [name, json] : fields) texts.push_back(json_text(name) + ":" + json);
    return format_text("{{{}}}", join(texts, ","));
}

class TrackioRun : public Tracker {
public:
    TrackioRun(Database database, const TrackedRun& run)
        : database_(std::move(database)), run_(run) {}

    std::optional<Failure> begin() {
        std::vector<std::pair<std::string, std::string>> config;
        for (const auto& [name, text] : run_.settings) config.emplace_back(name, json_value(text));
        const std::string began = iso_time(run_.began);
        config.emplace_back("_Username", json_text(run_.user));
        config.emplace_back("_Created", json_text(began));
        config.emplace_back("_Group", "null");
        if (auto failure = database_.run(
                "INSERT INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
                {run_.id, run_.name, json_object(config), began}))
            return failure;
        return database_.run("BEGIN");  // one transaction for all lines of earlier attempts
    }

    std::optional<Failure> restore(const TrackedLine& line) override { return insert(line); }

    std::optional<Failure> add(const TrackedLine& line) override {
        if (auto failure = leave_restoring()) return failure;
        return insert(line);
    }

    std::optional<Failure> end(double) override { return leave_restoring(); }

    std::string command() const override {
        return format_text("TRACKIO_DIR={} trackio show --project {}",
                           shell_word((run_.output_dir / "trackio").string()),
                           shell_word(run_.project));
    }

private:
    std::optional<Failure> insert(const TrackedLine& line) {
        std::vector<std::pair<std::string, std::string>> metrics;
        for (const auto& [key, value] : line.numbers)
            metrics.emplace_back(tensorboard_tag(key), trackio_number(value));
        return database_.run(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics, log_id) "
            "VALUES (?, ?, ?, CAST(? AS INTEGER), ?, ?)",
            {run_.id, iso_time(line.time), run_.name, std::to_string(line.step),
             json_object(metrics), format_text("{}-{}", run_.id, num_lines_++)});
    }

    std::optional<Failure> leave_restoring() {
        if (!is_restoring_) return std::nullopt;
        is_restoring_ = false;
        return database_.run("COMMIT");
    }

    Database database_;
    TrackedRun run_;
    int64_t num_lines_ = 0;
    bool is_restoring_ = true;
};

}  // namespace

Expected<std::unique_ptr<Tracker>> open_trackio(const TrackedRun& run) {
    auto database = Database::create(run.output_dir / "trackio" / (file_name(run.project) + ".db"));
    if (!database) return database.failure();
    auto made = std::make_unique<TrackioRun>(std::move(database).value(), run);
    if (auto failure = made->begin()) return *failure;
    return std::unique_ptr<Tracker>(std::move(made));
}

}  // namespace ringshard::report

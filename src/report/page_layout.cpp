#include <algorithm>
#include <map>

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

// Draws the mesh as nested boxes: replicas contain shards, shards contain the ranks of a sequence
// group, with a row per ring rank and a column per Ulysses rank.
namespace ringshard::report {

namespace {

// The displayed part of each axis: all of it in a small world.
struct Shown {
    explicit Shown(const RunRecord& record) {
        constexpr int64_t most_ranks = 512;
        if (record.world() <= most_ranks) return;
        replicas = 2;
        shards = record.sequence() == 1 ? 64 : 4;
        ring = ulysses = 8;
    }
    int64_t replicas = INT64_MAX, shards = INT64_MAX, ring = INT64_MAX, ulysses = INT64_MAX;
};

std::string count_text(int64_t count, const char* one, const char* many) {
    return format_text("{} {}", count, count == 1 ? one : many);
}

class MeshPicture {
public:
    explicit MeshPicture(const RunRecord& record) : record_(record), shown_(record) {
        for (const RunRecord::Rank& rank : record.ranks) hosts_.emplace(rank.host, hosts_.size());
    }

    std::string draw() const {
        std::string replicas;
        const int64_t count = std::min(record_.replicate, shown_.replicas);
        for (int64_t replica = 0; replica < count; ++replica) replicas += draw_replica(replica);
        replicas += more(record_.replicate - count, "replica", "replicas");
        return format_text("<div class=\"mesh\"><div class=\"axis\">{}</div></div>\n{}", replicas,
                           draw_hosts());
    }

    std::string in_words() const {
        std::vector<std::string> axes;
        if (record_.replicate > 1)
            axes.push_back(
                format_text("{} replicas of the model (dp_replicate_size)", record_.replicate));
        if (record_.shard > 1)
            axes.push_back(format_text("{} shards (dp_shard_size)", record_.shard));
        if (record_.ring > 1) axes.push_back(format_text("rings of {} (cp_size)", record_.ring));
        if (record_.ulysses > 1)
            axes.push_back(format_text("Ulysses groups of {} (sp_size)", record_.ulysses));
        std::string text =
            format_text("{} on {}{}{}.", count_text(record_.world(), "rank", "ranks"),
                        count_text(static_cast<int64_t>(hosts_.size()), "host", "hosts"),
                        axes.empty() ? "" : ": ", join(axes, ", "));
        if (record_.sequence() > 1)
            text += format_text(" Every {} ranks share a sequence.", record_.sequence());
        if (record_.ring > 1 && record_.ulysses > 1)
            text += " In the picture a ring runs down, Ulysses across.";
        if (!record_.cuts.empty())
            text += format_text(" {}{}.", upper_case(record_.cuts.substr(0, 1)),
                                record_.cuts.substr(1));
        if (record_.effective_batch)
            text += format_text(" A step takes {} rows.", *record_.effective_batch);
        return text;
    }

private:
    std::string draw_replica(int64_t replica) const {
        std::string shards;
        const int64_t count = std::min(record_.shard, shown_.shards);
        for (int64_t shard = 0; shard < count; ++shard)
            shards += record_.sequence() == 1 ? draw_rank("span", replica * record_.shard + shard)
                                              : draw_sequence(replica, shard);
        shards += more(record_.shard - count, "shard", "shards");
        if (record_.replicate == 1 || record_.shard * record_.sequence() == 1) return shards;
        return format_text("<div class=\"group\">{}<div class=\"axis\">{}</div></div>",
                           text_in("p", format_text("replica {}", replica)), shards);
    }

    std::string draw_sequence(int64_t replica, int64_t shard) const {
        const int64_t first = (replica * record_.shard + shard) * record_.sequence();
        const int64_t rows = std::min(record_.ring, shown_.ring);
        const int64_t columns = std::min(record_.ulysses, shown_.ulysses);
        std::string table;
        for (int64_t row = 0; row < rows; ++row) {
            std::string cells;
            for (int64_t column = 0; column < columns; ++column)
                cells += draw_rank("td", first + row * record_.ulysses + column);
            if (record_.ulysses > columns)
                cells += format_text("<td class=\"more\">+{}</td>", record_.ulysses - columns);
            table += element("tr", "", cells);
        }
        if (record_.ring > rows)
            table += format_text("<tr><td class=\"more\" colspan=\"{}\">+{}</td></tr>", columns,
                                 count_text(record_.ring - rows, "row", "rows"));
        const std::string title =
            record_.shard > 1 ? format_text("shard {}", shard) : std::string("one sequence");
        return format_text("<div class=\"group\">{}<table><tbody>{}</tbody></table></div>",
                           text_in("p", title), table);
    }

    std::string draw_rank(std::string_view tag, int64_t rank) const {
        const RunRecord::Rank& place = record_.ranks[static_cast<size_t>(rank)];
        return format_text("<{} class=\"rank host{}\" title=\"rank {}: {}, {}\">{}</{}>", tag,
                           hosts_.at(place.host) % 8, rank, escaped(place.host),
                           escaped(place.device), rank, tag);
    }

    static std::string more(int64_t count, const char* one, const char* many) {
        if (count <= 0) return {};
        return format_text("<span class=\"more\">and {} more</span>", count_text(count, one, many));
    }

    // Draws the legend of hosts, if there are several with distinguishable colours.
    std::string draw_hosts() const {
        constexpr size_t num_colors = 8;
        if (hosts_.size() < 2 || hosts_.size() > num_colors) return {};
        std::vector<std::string> names(hosts_.size());
        for (const auto& [host, number] : hosts_) names[number] = host;
        std::string items;
        for (size_t host = 0; host < names.size(); ++host)
            items += element("li", "", area_sample(host) + text_in("span", names[host]));
        return format_text("<ul class=\"legend hosts\">{}</ul>\n", items);
    }

    const RunRecord& record_;
    Shown shown_;
    std::map<std::string, size_t> hosts_;  // in order of their first rank
};

}  // namespace

std::string layout(const RunRecord& record) {
    if (static_cast<int64_t>(record.ranks.size()) != record.world()) return {};
    const MeshPicture picture(record);
    return text_in("p", picture.in_words()) + "\n" + picture.draw();
}

}  // namespace ringshard::report

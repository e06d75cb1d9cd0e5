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
    return concat(count, " ", count == 1 ? one : many);
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
        return concat("<div class=\"mesh\"><div class=\"axis\">", replicas, "</div></div>\n",
                      draw_hosts());
    }

    std::string in_words() const {
        std::vector<std::string> axes;
        if (record_.replicate > 1)
            axes.push_back(concat(record_.replicate, " replicas of the model (dp_replicate_size)"));
        if (record_.shard > 1) axes.push_back(concat(record_.shard, " shards (dp_shard_size)"));
        if (record_.ring > 1) axes.push_back(concat("rings of ", record_.ring, " (cp_size)"));
        if (record_.ulysses > 1)
            axes.push_back(concat("Ulysses groups of ", record_.ulysses, " (sp_size)"));
        std::string text = concat(count_text(record_.world(), "rank", "ranks"), " on ",
                                  count_text(static_cast<int64_t>(hosts_.size()), "host", "hosts"),
                                  axes.empty() ? "" : ": ", join(axes, ", "), ".");
        if (record_.sequence() > 1)
            text += concat(" Every ", record_.sequence(), " ranks share a sequence.");
        if (record_.ring > 1 && record_.ulysses > 1)
            text += " In the picture a ring runs down, Ulysses across.";
        if (!record_.cuts.empty())
            text += concat(" ", upper_case(record_.cuts.substr(0, 1)), record_.cuts.substr(1), ".");
        if (record_.effective_batch)
            text += concat(" A step takes ", *record_.effective_batch, " rows.");
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
        return concat("<div class=\"group\">", text_in("p", concat("replica ", replica)),
                      "<div class=\"axis\">", shards, "</div></div>");
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
                cells += concat("<td class=\"more\">+", record_.ulysses - columns, "</td>");
            table += element("tr", "", cells);
        }
        if (record_.ring > rows)
            table += concat("<tr><td class=\"more\" colspan=\"", columns, "\">+",
                            count_text(record_.ring - rows, "row", "rows"), "</td></tr>");
        const std::string title =
            record_.shard > 1 ? concat("shard ", shard) : std::string("one sequence");
        return concat("<div class=\"group\">", text_in("p", title), "<table><tbody>", table,
                      "</tbody></table></div>");
    }

    std::string draw_rank(std::string_view tag, int64_t rank) const {
        const RunRecord::Rank& place = record_.ranks[static_cast<size_t>(rank)];
        return concat("<", tag, " class=\"rank host", hosts_.at(place.host) % 8, "\" title=\"rank ",
                      rank, ": ", escaped(place.host), ", ", escaped(place.device), "\">", rank,
                      "</", tag, ">");
    }

    static std::string more(int64_t count, const char* one, const char* many) {
        if (count <= 0) return {};
        return concat("<span class=\"more\">and ", count_text(count, one, many), " more</span>");
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
        return concat("<ul class=\"legend hosts\">", items, "</ul>\n");
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

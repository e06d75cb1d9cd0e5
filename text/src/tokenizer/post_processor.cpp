#include "post_processor.hpp"

namespace ringshard::text {

namespace {

void add_ids(const Json& special_tokens, const std::string& name, std::vector<int32_t>& ids) {
    if (!is_object(special_tokens)) refuse("\"special_tokens\" of the template is not an object");
    const Json* token = find(special_tokens, name);
    if (token == nullptr || !is_object(*token))
        refuse(
            format_text("the template's token \"{}\" is not among its \"special_tokens\"", name));
    for (const Json& each : list_of(*token, "ids")) {
        const int64_t* id = each.integer();
        if (id == nullptr || *id < 0 || *id > INT32_MAX)
            refuse(format_text("the template's token \"{}\" has no valid id", name));
        ids.push_back(static_cast<int32_t>(*id));
    }
}

void read_template(const Json& processor, PostProcessor& result) {
    bool behind_text = false;
    for (const Json& piece : list_of(processor, "single")) {
        if (!is_object(piece)) refuse("a piece of the template is not an object");
        if (const Json* sequence = find(piece, "Sequence")) {
            if (!is_object(*sequence) || text_of(*sequence, "id") != "A" || behind_text)
                refuse("a template for one text that does not hold it once is not supported");
            behind_text = true;
            continue;
        }
        const Json& special = get(piece, "SpecialToken");
        if (!is_object(special)) refuse("a piece of the template is not an object");
        add_ids(get(processor, "special_tokens"), text_of(special, "id"),
                behind_text ? result.after : result.before);
    }
    if (!behind_text) refuse("a template for one text that does not hold it is not supported");
}

void read(const Json& processor, PostProcessor& result, bool& has_template) {
    if (!is_object(processor)) refuse("a post_processor is not an object");
    const std::string kind = text_of(processor, "type");
    if (kind == "Sequence") {
        for (const Json& part : list_of(processor, "processors")) read(part, result, has_template);
    } else if (kind == "ByteLevel") {
        const bool prefix = flag_of(processor, "add_prefix_space");
        if (flag_of(processor, "trim_offsets")) result.trimmings.push_back({prefix});
    } else if (kind == "TemplateProcessing") {
        if (has_template) refuse("two TemplateProcessing in one post_processor are not supported");
        has_template = true;
        read_template(processor, result);
    } else {
        refuse_kind("a post_processor", kind);
    }
}

}  // namespace

PostProcessor read_post_processor(const Json& post_processor) {
    PostProcessor result;
    bool has_template = false;
    read(post_processor, result, has_template);
    return result;
}

}  // namespace ringshard::text

# Writes the built-in profiles into the program, so that it finds them wherever it is copied to.
set(entries "")
foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} yaml)
    string(APPEND entries "        {\"${name}\", R\"yaml(${yaml})yaml\"},\n")
endforeach()
file(WRITE ${OUT} "// Generated from configs/ by cmake/EmbedProfiles.cmake.
#include \"profiles.hpp\"

namespace ringshard::config {

const std::vector<BuiltinProfile>& builtin_profiles() {
    static const std::vector<BuiltinProfile> profiles{
${entries}    };
    return profiles;
}

}  // namespace ringshard::config
")

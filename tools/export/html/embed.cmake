# cmake -DOUT=assets.c -DFILES="style.css;..." -P embed.cmake
# Writes the pages' style and scripts as C arrays.
set(arrays "")
set(table "")
set(number 0)
list(SORT FILES)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "static const unsigned char file_${number}[] = {\n${hex}};\n")
  string(APPEND table "    {\"pages/${name}\", file_${number}, sizeof(file_${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "/* Made from tools/export/html/pages/ by tools/export/html/embed.cmake. */
#include \"tools/export/html/assets.h\"

${arrays}
const struct asset assets[] = {
${table}};
const size_t assets_count = ${number};
")

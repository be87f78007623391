# cmake -DOUT=migrations.c -DFILES="a.sql;b.sql" -P embed.cmake
# Writes the migrations as C arrays. Names are NNNN_what.sql; their numbers must run 100, 101 ...
set(arrays "")
set(table "")
set(expected 100)
list(SORT FILES)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  if(NOT name MATCHES "^([0-9][0-9][0-9][0-9])_[a-z0-9_]+\\.sql$")
    message(FATAL_ERROR "${name}: a migration is called NNNN_what.sql")
  endif()
  string(REGEX REPLACE "^0+" "" number ${CMAKE_MATCH_1})
  if(NOT number EQUAL expected)
    message(FATAL_ERROR "${name}: migration ${expected} comes next")
  endif()
  math(EXPR expected "${expected} + 1")
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "static const unsigned char sql_${number}[] = {\n${hex}0x00};\n")
  string(APPEND table "    {${number}, \"${name}\", (const char *)sql_${number}},\n")
endforeach()
math(EXPR last "${expected} - 1")
file(WRITE ${OUT} "/* Made from migrations/ by store/embed.cmake. */
#include \"store/migrate.h\"

${arrays}
const struct migration migrations[] = {
${table}    {0, 0, 0},
};
const int migrations_last = ${last};
")

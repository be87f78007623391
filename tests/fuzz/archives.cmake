# cmake -D OUT=folder -P archives.cmake: small archives as seeds of fuzz_archive.
file(MAKE_DIRECTORY ${OUT})
foreach(format zip 7zip gnutar pax)
  execute_process(COMMAND ${CMAKE_COMMAND} -E tar cf ${OUT}/archive-${format} --format=${format}
    README.md run.sh COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${OUT}/archive-nested ${OUT}/archive-zip
  WORKING_DIRECTORY ${OUT} COMMAND_ERROR_IS_FATAL ANY)
# A recording without an archive around it.
file(ARCHIVE_CREATE OUTPUT ${OUT}/archive-alone FORMAT raw COMPRESSION GZip
  PATHS ../samples/voices/01-3-voices.opus)
# Recordings of one name, also in archives of one name.
file(WRITE ${OUT}/take.wav "by its name a recording")
execute_process(COMMAND ${CMAKE_COMMAND} -E tar cf reel.tar take.wav take.wav
  WORKING_DIRECTORY ${OUT} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf archive-twice reel.tar reel.tar take.wav
  WORKING_DIRECTORY ${OUT} COMMAND_ERROR_IS_FATAL ANY)

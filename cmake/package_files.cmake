# Run by cpack on the files of each package before they are packed: manual pages and its list of
# changes compressed, as Debian has them, folders open whatever the umask, and all of one time when
# SOURCE_DATE_EPOCH is set. Then on the packages: Installed-Size as cpack has it counts what folders
# take, which is the file system's affair.
if(CPACK_PACKAGE_FILES)
  foreach(ns_package ${CPACK_PACKAGE_FILES})
    set(ns_files ${ns_package}.files)
    execute_process(COMMAND dpkg-deb --raw-extract ${ns_package} ${ns_files} COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB_RECURSE ns_paths LIST_DIRECTORIES true RELATIVE ${ns_files} ${ns_files}/*)
    list(FILTER ns_paths EXCLUDE REGEX "^DEBIAN")
    set(ns_size 0)
    foreach(ns_path ${ns_paths}) # as dpkg-gencontrol counts: whole KiB of a file, and 1 of a folder
      set(ns_bytes 1)
      if(NOT IS_DIRECTORY ${ns_files}/${ns_path})
        file(SIZE ${ns_files}/${ns_path} ns_bytes)
      endif()
      math(EXPR ns_size "${ns_size} + (${ns_bytes} + 1023) / 1024")
    endforeach()
    file(READ ${ns_files}/DEBIAN/control ns_control)
    string(REGEX REPLACE "Installed-Size: [0-9]+" "Installed-Size: ${ns_size}" ns_control "${ns_control}")
    file(WRITE ${ns_files}/DEBIAN/control "${ns_control}")
    execute_process(COMMAND dpkg-deb --root-owner-group -Z${CPACK_DEBIAN_COMPRESSION_TYPE} --build ${ns_files} ${ns_package}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  return()
endif()
execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}
  ( -path */man1/*.1 -o -name changelog.Debian ) -exec gzip -9n {} +
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY} -type d -exec chmod 755 {} +
  COMMAND_ERROR_IS_FATAL ANY)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}
    -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} + COMMAND_ERROR_IS_FATAL ANY)
endif()

# Run by cpack on the files of each package before they are packed: manual pages and lists of changes
# compressed, as Debian has them, and all of one time when SOURCE_DATE_EPOCH is set.
execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}
  ( -path */man1/*.1 -o -name changelog -o -name changelog.Debian ) -exec gzip -9n {} +
  COMMAND_ERROR_IS_FATAL ANY)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}
    -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} + COMMAND_ERROR_IS_FATAL ANY)
endif()

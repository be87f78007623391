# `cpack` in a build folder: nightshift, the program with all that it needs to work on the processor,
# and, where the module was built, nightshift-cuda. `tools/dev/release` makes them from a clean tree.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nightshift)
set(CPACK_PACKAGE_VENDOR Nightshift)
set(CPACK_PACKAGE_CONTACT "Nightshift maintainers <maintainers@nightshift.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# What dpkg-gencontrol would be told by a changelog: of which Debian it is, so that an upgrade of that
# brings the one that goes with its libraries.
set(NIGHTSHIFT_PACKAGE_RELEASE "" CACHE STRING "Debian revision of the packages (empty: 1~ and the system's name)")
set(ns_revision ${NIGHTSHIFT_PACKAGE_RELEASE})
if(NOT ns_revision)
  cmake_host_system_information(RESULT ns_system QUERY DISTRIB_INFO)
  string(REGEX REPLACE "[^a-z0-9.]" "" ns_revision "1~${ns_system_ID}${ns_system_VERSION_ID}")
  string(REGEX REPLACE "^1" "1~" ns_revision "${ns_revision}")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${ns_revision})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)

set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME nightshift)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION sound)
# dpkg-shlibdeps sees what the program is linked to; these it opens (base/library.h).
set(ns_opened "libarchive13 (>= 3.6)" "libcurl4 (>= 7.85)" libssl3)
foreach(ns_library avformat avcodec swresample avutil)
  string(REGEX REPLACE "\\..*" "" ns_major "${FFMPEG_lib${ns_library}_VERSION}")
  list(APPEND ns_opened "lib${ns_library}${ns_major}")
endforeach()
list(JOIN ns_opened ", " CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "sqlite3, ca-certificates")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "nightshift-cuda, mpv | ffmpeg")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/tools/packages/postinst ${PROJECT_SOURCE_DIR}/tools/packages/prerm
  ${PROJECT_SOURCE_DIR}/tools/packages/postrm)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
  "transcribe archives of audio and video overnight
In the evening it is pointed at folders and archives of recordings; by the
morning one SQLite file holds the transcript of each of them. Every five
minutes of audio are a checkpoint, media are parsed in locked-in processes
only, and one recording that is damaged stops nothing.
.
Silero's model of voice activity comes with it, and two small models for a
trial; others are the user's to choose.")

if(TARGET ns_cuda)
  string(REPLACE "." "-" ns_cuda_dashed ${NIGHTSHIFT_CUDA_VERSION})
  string(REGEX REPLACE "\\..*" "" ns_cuda_major ${NIGHTSHIFT_CUDA_VERSION})
  # As least_driver of gpu/cuda/check.c.
  if(ns_cuda_major GREATER_EQUAL 13)
    set(ns_cuda_driver 580)
  else()
    set(ns_cuda_driver 525)
  endif()
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME nightshift-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/sound)
  # Either system's package of the same program: the module asks the C library alone for anything.
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS
    "nightshift (>= ${PROJECT_VERSION}), nightshift (<< ${PROJECT_VERSION}.1~)")
  # NVIDIA's own packages, which Debian does not have.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS
    "libcuda1 (>= ${ns_cuda_driver}), libcublas-${ns_cuda_dashed}, libcudnn9-cuda-${ns_cuda_major}, nvidia-persistenced")
  set(CPACK_COMPONENT_CUDA_DESCRIPTION
    "transcribe archives of audio and video overnight, on NVIDIA's GPUs
The part of Nightshift that uses GPUs. It wants NVIDIA's driver ${ns_cuda_driver} or later,
cuBLAS of CUDA ${ns_cuda_major} and perhaps cuDNN 9; `nightshift doctor` says what it finds.
Debian 12 has driver 535 and Debian 13 has 550: NVIDIA's repository has others.")
endif()

include(GNUInstallDirs)
# What Debian has beside the program, of each package.
string(TIMESTAMP ns_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ ${PROJECT_SOURCE_DIR}/NOTICE ns_notice)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE ns_licence)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packages/copyright @ONLY CONTENT "@ns_notice@
Debian has the texts of the GPL and the LGPL in /usr/share/common-licenses/GPL-2 and LGPL-2.1.

@ns_licence@")
foreach(ns_component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${ns_component} ns_upper)
  set(ns_package ${CPACK_DEBIAN_${ns_upper}_PACKAGE_NAME})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packages/${ns_package}/changelog.Debian @ONLY CONTENT
"@ns_package@ (@PROJECT_VERSION@-@ns_revision@) unstable; urgency=medium

  * What changed is in /usr/share/doc/nightshift/CHANGELOG.md.

 -- @CPACK_PACKAGE_CONTACT@  @ns_date@
")
  install(FILES ${PROJECT_BINARY_DIR}/packages/copyright
                ${PROJECT_BINARY_DIR}/packages/${ns_package}/changelog.Debian
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${ns_package} COMPONENT ${ns_component})
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_files.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CPACK_PRE_BUILD_SCRIPTS})
include(CPack)

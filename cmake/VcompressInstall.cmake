# What `cmake --install` puts where, find_package(vcompress), pkg-config. Components: runtime (the program, its manual, completions,
# schemas), library (when shared), development, documents (with the examples), and the plug-ins cuda, http and mpi. scripts/release.sh
# makes packages of them.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vcompress)
get_target_property(library_type vcompress TYPE)

install(TARGETS vcompress EXPORT vcompressTargets
  RUNTIME COMPONENT runtime
  LIBRARY COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development)
if(TARGET vcompress_program)
  install(TARGETS vcompress_program RUNTIME COMPONENT runtime)
endif()
install(DIRECTORY include/vcompress DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE README.md CHANGELOG.md INSTALL.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ REGEX "examples/CMakeLists.txt$|__pycache__" EXCLUDE)
install(CODE "set(folder \"${CMAKE_INSTALL_DOCDIR}\")
  if(NOT IS_ABSOLUTE \"\${folder}\")
    set(folder \"\${CMAKE_INSTALL_PREFIX}/\${folder}\")
  endif()
  execute_process(COMMAND \"\${CMAKE_COMMAND}\" \"-DFOLDER=\$ENV{DESTDIR}\${folder}\"
    -P \"${PROJECT_SOURCE_DIR}/cmake/VcompressDocuments.cmake\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT documents)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
  -P ${PROJECT_SOURCE_DIR}/cmake/VcompressUninstall.cmake COMMENT "Removes what was installed")

# find_package(vcompress): a static library needs what it was linked with, a shared one nothing.
set(VCOMPRESS_CONFIG_MODULES "")
set(VCOMPRESS_CONFIG_DEPENDENCIES "")
set(VCOMPRESS_PC_REQUIRES "zlib jansson")
if(VCOMPRESS_HAVE_LIBDEFLATE)
  string(APPEND VCOMPRESS_PC_REQUIRES " libdeflate")
endif()
if(VCOMPRESS_HAVE_ISAL)
  string(APPEND VCOMPRESS_PC_REQUIRES " libisal")
endif()
if(VCOMPRESS_HAVE_NETTLE)
  string(APPEND VCOMPRESS_PC_REQUIRES " nettle")
endif()
set(VCOMPRESS_PC_LIBS "-lpthread -lm")
if(CMAKE_DL_LIBS)
  string(APPEND VCOMPRESS_PC_LIBS " -l${CMAKE_DL_LIBS}")
endif()
if(library_type STREQUAL "STATIC_LIBRARY")
  set(VCOMPRESS_PC_PRIVATE "")
  set(VCOMPRESS_PC_LIBS_PRIVATE "")
  set(VCOMPRESS_PC_LIBS_PUBLIC " ${VCOMPRESS_PC_LIBS}")
  set(VCOMPRESS_CONFIG_MODULES Jansson)
  string(APPEND VCOMPRESS_CONFIG_DEPENDENCIES
    "find_dependency(Threads)\nfind_dependency(ZLIB 1.2.12)\nfind_dependency(Jansson)\n")
  foreach(package Libdeflate Isal Nettle)
    string(TOUPPER ${package} name)
    if(VCOMPRESS_HAVE_${name})
      list(APPEND VCOMPRESS_CONFIG_MODULES ${package})
      string(APPEND VCOMPRESS_CONFIG_DEPENDENCIES "find_dependency(${package})\n")
    endif()
  endforeach()
else()
  set(VCOMPRESS_PC_PRIVATE ".private")
  set(VCOMPRESS_PC_LIBS_PRIVATE "\nLibs.private: ${VCOMPRESS_PC_LIBS}") # for the archive, of a package that has both
  set(VCOMPRESS_PC_LIBS_PUBLIC "")
endif()

# Folders of the .pc file follow its own place, so that an installed tree can be moved; those that are absolute stay.
string(REGEX REPLACE "[^/]+" ".." VCOMPRESS_PC_PREFIX "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
string(PREPEND VCOMPRESS_PC_PREFIX "\${pcfiledir}/")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(VCOMPRESS_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
endif()
foreach(name LIBDIR INCLUDEDIR)
  set(VCOMPRESS_PC_${name} "${CMAKE_INSTALL_${name}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
    string(PREPEND VCOMPRESS_PC_${name} "\${prefix}/")
  endif()
endforeach()
configure_file(cmake/vcompress.pc.in vcompress.pc @ONLY)
configure_package_config_file(cmake/vcompressConfig.cmake.in vcompressConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(vcompressConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(EXPORT vcompressTargets NAMESPACE vcompress:: DESTINATION ${config_dir} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/vcompressConfig.cmake ${PROJECT_BINARY_DIR}/vcompressConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT development)
foreach(package ${VCOMPRESS_CONFIG_MODULES})
  install(FILES cmake/Find${package}.cmake DESTINATION ${config_dir} COMPONENT development)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/vcompress.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# CMake package of warpline. Paths are relative to this file: the installed tree may be moved.
#   find_package(warpline REQUIRED)
#   target_link_libraries(program PRIVATE warpline::warpline)      the static library
#   target_link_libraries(program PRIVATE warpline::shared)        libwarpline.so, where installed
get_filename_component(_warpline_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_warpline_archive "${_warpline_prefix}/lib/libwarpline.a")
set(_warpline_shared "${_warpline_prefix}/lib/libwarpline.so")

if(NOT EXISTS "${_warpline_archive}")
  set(warpline_FOUND FALSE)
  set(warpline_NOT_FOUND_MESSAGE "${_warpline_archive} is missing")
  return()
endif()

if(NOT TARGET warpline::warpline)
  add_library(warpline::warpline STATIC IMPORTED)
  set_target_properties(warpline::warpline PROPERTIES
    IMPORTED_LOCATION "${_warpline_archive}"
    INTERFACE_INCLUDE_DIRECTORIES "${_warpline_prefix}/include"
    # By name, so that a project without C++ can link.
    INTERFACE_LINK_LIBRARIES "stdc++;dl;pthread;m")
  if(EXISTS "${_warpline_shared}")
    add_library(warpline::shared SHARED IMPORTED)
    set_target_properties(warpline::shared PROPERTIES
      IMPORTED_LOCATION "${_warpline_shared}"
      IMPORTED_SONAME "libwarpline.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_warpline_prefix}/include")
  endif()
endif()

unset(_warpline_prefix)
unset(_warpline_archive)
unset(_warpline_shared)
